package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// node is a part of an answer in the form that is compared: a leaf, the fields
// of a struct, or the elements of an array by their keys.
type node struct {
	leaf   string
	parts  []part
	isList bool
}

type part struct {
	name string
	node node
}

// keyFields name the element of an array among its siblings. Arrays of structs
// are compared by these and not by position, since the protocol promises no order.
var keyFields = []string{
	"Topic", "TopicID", "Group", "ResourceType", "ResourceName", "Name", "ConfigName", "Key", "CoordinatorKey",
	"Partition", "MemberID", "InstanceID", "NodeID", "ApiKey", "BrokerID", "Dir", "ProducerID", "Protocol", "Source",
}

var (
	timeFields = map[string]bool{"Timestamp": true, "LastTimestamp": true, "LogAppendTime": true, "MaxTimestamp": true, "TransactionStartTimestamp": true}
	textFields = map[string]bool{"ErrorMessage": true, "Documentation": true, "Error": true}
	// foreignName is a name of another sequence: prefixes of runs look like this.
	foreignName = regexp.MustCompile(`^q[0-9a-f]{8}`)
)

// normalise turns an answer into the form that is compared: what may differ
// between two right brokers is replaced by what must not.
func (s *side) normalise(resp kmsg.Response) node {
	return s.value(reflect.ValueOf(resp).Elem(), "", "")
}

func (s *side) value(v reflect.Value, field, parent string) node {
	if text, ok := s.special(v, field, parent); ok {
		return node{leaf: text}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return node{leaf: "null"}
		}
		return s.value(v.Elem(), field, parent)
	case reflect.Struct:
		if v.Type() == tagsType {
			return node{leaf: tagsText(v)}
		}
		return s.structure(v, field)
	case reflect.Slice:
		return s.list(v, field)
	case reflect.Array:
		return node{leaf: fmt.Sprintf("%x", v.Interface())}
	case reflect.String:
		return node{leaf: strconv.Quote(v.String())}
	}
	if v.CanInt() { // not Interface: named integers print as words
		return node{leaf: strconv.FormatInt(v.Int(), 10)}
	}
	return node{leaf: fmt.Sprint(v.Interface())}
}

// logDirTopic holds the sizes of internal topics, which all sequences write to.
var logDirTopic = reflect.TypeFor[kmsg.DescribeLogDirsResponseDirTopic]()

func (s *side) structure(v reflect.Value, field string) node {
	s.relate(v)
	var n node
	internal := false
	if t := v.FieldByName("Topic"); t.IsValid() && t.Kind() == reflect.String {
		internal = strings.HasPrefix(t.String(), "__")
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "Version" || name == "ThrottleMillis" || internal && name == "Partitions" && v.Type() == logDirTopic {
			continue
		}
		n.parts = append(n.parts, part{name, s.value(v.Field(i), name, field)})
	}
	return n
}

// relate learns the name of a topic id from a struct that has both.
func (s *side) relate(v reflect.Value) {
	id, name := v.FieldByName("TopicID"), v.FieldByName("Topic")
	if !id.IsValid() || !name.IsValid() {
		return
	}
	if name.Kind() == reflect.Pointer {
		if name.IsNil() {
			return
		}
		name = name.Elem()
	}
	raw, ok := id.Interface().([16]byte)
	if ok && raw != [16]byte{} && name.String() != "" {
		s.topicIDs.bind(string(raw[:]), name.String())
	}
}

func (s *side) list(v reflect.Value, field string) node {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.IsNil() {
			return node{leaf: "null"}
		}
		return node{leaf: "0x" + hex.EncodeToString(v.Bytes())}
	}
	n := node{isList: true}
	if v.IsNil() {
		return node{leaf: "null"}
	}
	if members, ok := v.Interface().([]kmsg.JoinGroupResponseMember); ok {
		s.nameMembers(members)
	}
	for i := range v.Len() {
		e := s.value(v.Index(i), field, field)
		key := e.key()
		if key == "" && v.Type().Elem().Kind() != reflect.Struct {
			key = strconv.Itoa(i)
			if v.Type().Elem().Kind() == reflect.String && foreignName.MatchString(v.Index(i).String()) {
				continue
			}
		}
		if field == "Entity" || !e.foreign() { // whose quotas: all of it or none
			n.parts = append(n.parts, part{key, e})
		}
	}
	switch {
	case len(n.parts) == 0 && v.Len() > 0 && field != "Entries": // kmsg reads no elements as null where null is not allowed
		return node{leaf: "null"}
	case len(n.parts) == 0:
		return node{leaf: "[]"}
	}
	if v.Type().Elem().Kind() == reflect.Struct {
		n.merge()
		n.sort()
	}
	return n
}

// nameMembers names those that appear in a list for the first time by what is said
// of them: the list has no order.
func (s *side) nameMembers(members []kmsg.JoinGroupResponseMember) {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b kmsg.JoinGroupResponseMember) int {
		return bytes.Compare(a.ProtocolMetadata, b.ProtocolMetadata)
	})
	for _, m := range members {
		s.memberText(m.MemberID)
	}
}

// merge joins elements of one topic that differ in nothing but their partitions:
// a broker may answer for a topic in several pieces.
func (n *node) merge() {
	var out []part
	at := make(map[string]int)
	for _, p := range n.parts {
		k := slices.IndexFunc(p.node.parts, func(f part) bool { return f.name == "Partitions" && f.node.isList })
		if k < 0 {
			out = append(out, p)
			continue
		}
		rest := slices.Delete(slices.Clone(p.node.parts), k, k+1)
		whole := p.name + " " + node{parts: rest}.String()
		i, ok := at[whole]
		if !ok {
			at[whole] = len(out)
			out = append(out, p)
			continue
		}
		list := &out[i].node.parts[k].node
		list.parts = append(list.parts, p.node.parts[k].node.parts...)
		list.unnumber()
		list.sort()
	}
	n.parts = out
}

// unnumber takes the numbers of equal keys off, for sort to give them again.
func (n *node) unnumber() {
	for i := range n.parts {
		n.parts[i].name, _, _ = strings.Cut(n.parts[i].name, "#")
	}
}

// sort orders elements by key and then by content, and numbers equal keys.
func (n *node) sort() {
	slices.SortStableFunc(n.parts, func(a, b part) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.node.String(), b.node.String())
	})
	count := 0
	for i := range n.parts {
		base := n.parts[i].name
		if i > 0 && (n.parts[i-1].name == base || n.parts[i-1].name == fmt.Sprintf("%s#%d", base, count)) {
			count++
			n.parts[i].name = fmt.Sprintf("%s#%d", base, count)
			continue
		}
		count = 0
	}
}

func (n *node) key() string {
	var k []string
	for _, p := range n.parts {
		if p.name == "Entity" { // of quotas, named by all that it has
			k = append(k, p.node.String())
		}
	}
	for _, f := range keyFields {
		for _, p := range n.parts {
			if p.name == f && p.node.parts == nil {
				k = append(k, strings.Trim(p.node.leaf, `"`))
			}
		}
	}
	return strings.Join(k, ",")
}

func (n *node) foreign() bool {
	for _, p := range n.parts {
		switch p.name {
		case "Topic", "Group", "Name", "ResourceName":
			if p.node.leaf == `"__transaction_state"` || p.node.leaf == `"__share_group_state"` {
				return true // of features that are not served
			}
			if foreignName.MatchString(strings.Trim(p.node.leaf, `"`)) {
				return true
			}
		case "Entity":
			if slices.ContainsFunc(p.node.parts, func(e part) bool { return e.node.foreign() }) {
				return true
			}
		}
	}
	return false
}

func (n node) String() string {
	if n.parts == nil {
		return n.leaf
	}
	var b strings.Builder
	for i, p := range n.parts {
		if i > 0 {
			b.WriteByte(' ')
		}
		if n.isList {
			b.WriteString("[" + p.name + "]")
		} else {
			b.WriteString(p.name + "=")
		}
		if p.node.parts != nil {
			b.WriteString("{" + p.node.String() + "}")
		} else {
			b.WriteString(p.node.leaf)
		}
	}
	return b.String()
}

// special handles the fields whose values are the broker's own.
func (s *side) special(v reflect.Value, field, parent string) (string, bool) {
	if v.Kind() == reflect.Pointer {
		return "", false
	}
	switch x := v.Interface().(type) {
	case string:
		return s.specialText(x, field)
	case [16]byte:
		if x == [16]byte{} {
			return "none", true
		}
		if x[0] == noTopicMark && x[1] == 'I' && x[2] == 'D' { // not by its place, which may differ
			return "of no topic " + strings.TrimRight(string(x[3:]), "\x00"), true
		}
		return s.topicIDs.name(string(x[:]), "id"), true
	case int64:
		switch {
		case field == "ProducerID" && x >= 0:
			return s.producerIDs.known(x), true
		case timeFields[field]:
			return timeText(x), true
		case field == "TotalBytes" || field == "UsableBytes" || field == "FinalizedFeaturesEpoch":
			return sign(x), true
		}
	case int32:
		switch {
		case field == "SessionID" && x != 0:
			return s.sessionIDs.name(x, "session"), true
		case field == "LeaderEpoch" || field == "Epoch" && parent == "DivergingEpoch":
			return s.epochText(x), true
		case field == "Port" && x == s.port:
			return "port", true
		}
	case []byte:
		if field == "RecordBatches" {
			return s.batchesText(x), true
		}
	}
	return "", false
}

func (s *side) specialText(x, field string) (string, bool) {
	switch {
	case textFields[field]:
		if x == "" {
			return "empty text", true
		}
		return "text", true
	case field == "ClusterID" && x == s.vals.clusterID:
		return "cluster", true
	case field == "Dir" || field == "LogDir":
		return "dir", true
	case field == "MemberID" || field == "LeaderID":
		return s.memberText(x), true
	}
	return "", false
}

var uuidEnd = regexp.MustCompile(`^(?s)(.*)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// memberText names a member by what the broker put before the random part of its
// id and the order of appearance.
func (s *side) memberText(id string) string {
	m := uuidEnd.FindStringSubmatch(id)
	if m == nil {
		return strconv.Quote(id)
	}
	return s.memberIDs.name(id, "member "+m[1])
}

func (s *side) epochText(x int32) string {
	if x < 0 {
		return strconv.Itoa(int(x))
	}
	if x < s.vals.epochBase {
		return fmt.Sprintf("%d, below the first epoch", x)
	}
	return strconv.Itoa(int(x - s.vals.epochBase))
}

func timeText(ms int64) string {
	if d := time.Since(time.UnixMilli(ms)); d > -time.Hour && d < 24*time.Hour {
		return "now"
	}
	return strconv.FormatInt(ms, 10)
}

func sign(x int64) string {
	switch {
	case x < 0:
		return strconv.FormatInt(x, 10)
	case x == 0:
		return "0"
	}
	return "positive"
}

func tagsText(v reflect.Value) string {
	tags := v.Interface().(kmsg.Tags)
	if tags.Len() == 0 {
		return "no tags"
	}
	var b strings.Builder
	tags.Each(func(k uint32, val []byte) { fmt.Fprintf(&b, "tag %d=%x ", k, val) })
	return b.String()
}

// ids gives names to values of one kind in the order in which they appear.
type ids[K comparable] struct {
	names map[K]string
	count map[string]int
}

func newIDs[K comparable]() ids[K] { return ids[K]{map[K]string{}, map[string]int{}} }

func (s *ids[K]) bind(k K, name string) { s.names[k] = name }

func (s *ids[K]) name(k K, kind string) string {
	if n, ok := s.names[k]; ok {
		return n
	}
	s.count[kind]++
	n := fmt.Sprintf("%s %d", kind, s.count[kind])
	s.names[k] = n
	return n
}

// known names a value that bind was told of, others print as they are.
func (s *ids[K]) known(k K) string {
	if n, ok := s.names[k]; ok {
		return n
	}
	return fmt.Sprint(k)
}
