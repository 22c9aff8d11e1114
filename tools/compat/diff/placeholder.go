package main

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Placeholders stand in a request for values that only the broker knows; each
// broker's own value takes their place when the step is sent.
const (
	memberMark   = "\x00m"           // and the ID of a JoinGroup step: the member id it got
	clusterMark  = "\x00c"           // the cluster id
	producerBase = math.MinInt64 / 2 // plus the ID of an InitProducerId step
	sessionBase  = math.MinInt32 / 2 // plus the ID of a Fetch step
	stepsMax     = 1 << 12
)

func memberOf(step int) string  { return memberMark + strconv.Itoa(step) }
func producerOf(step int) int64 { return producerBase + int64(step) }
func sessionOf(step int) int32  { return sessionBase + int32(step) }

// topicIDOf is the placeholder of the topic with this name (with prefixToken);
// what follows the token has at most 13 bytes.
func topicIDOf(name string) (id [16]byte) {
	id[0], id[1], id[2] = 0xEE, 'I', 'D'
	copy(id[3:], strings.TrimPrefix(name, prefixToken))
	return id
}

// noTopicMark is the first byte of the id that is sent where a name has no topic.
const noTopicMark = 0xFA

func topicOfID(id [16]byte) (name string, ok bool) {
	if id[0] != 0xEE || id[1] != 'I' || id[2] != 'D' {
		return "", false
	}
	return prefixToken + strings.TrimRight(string(id[3:]), "\x00"), true
}

// values are what a broker answered in the sequence so far.
type values struct {
	members   map[int]string
	producers map[int]int64
	sessions  map[int]int32
	topics    map[string][16]byte // by name with prefixToken
	clusterID string
	epochBase int32 // the first leader epoch of a topic
}

func newValues() values {
	return values{members: map[int]string{}, producers: map[int]int64{}, sessions: map[int]int32{}, topics: map[string][16]byte{}}
}

// note remembers what later placeholders refer to.
func (vs *values) note(step int, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		vs.members[step] = r.MemberID
	case *kmsg.InitProducerIDResponse:
		vs.producers[step] = r.ProducerID
	case *kmsg.FetchResponse:
		vs.sessions[step] = r.SessionID
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			if t.TopicID != [16]byte{} {
				vs.topics[t.Topic] = t.TopicID
			}
		}
	case *kmsg.MetadataResponse:
		for _, t := range r.Topics {
			if t.Topic != nil && t.TopicID != [16]byte{} {
				vs.topics[*t.Topic] = t.TopicID
			}
		}
	}
}

// epochFields are the fields of requests that hold a leader epoch.
var epochFields = map[string]bool{"CurrentLeaderEpoch": true, "LeaderEpoch": true, "LastFetchedEpoch": true}

// wantedTopics lists the topics whose ids a request needs.
func wantedTopics(req kmsg.Request) (names []string) {
	for _, p := range places(req) {
		if id, ok := p.v.Interface().([16]byte); ok {
			if name, ok := topicOfID(id); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// fill returns the request with the placeholders' values.
func (vs *values) fill(req kmsg.Request) kmsg.Request {
	req = copyRequest(req)
	for _, p := range places(req) {
		switch x := p.v.Interface().(type) {
		case string:
			p.v.SetString(vs.text(x))
		case *string:
			if x != nil {
				s := vs.text(*x)
				p.v.Set(reflect.ValueOf(&s))
			}
		case int64:
			if n := x - producerBase; n >= 0 && n < stepsMax {
				p.v.SetInt(valueOr(vs.producers, int(n), -1))
			}
		case int32:
			switch n := x - sessionBase; {
			case n >= 0 && n < stepsMax:
				p.v.SetInt(int64(valueOr(vs.sessions, int(n), 0)))
			case epochFields[p.field] && x >= 0 && x < math.MaxInt32-vs.epochBase:
				p.v.SetInt(int64(x + vs.epochBase))
			}
		case [16]byte:
			if name, ok := topicOfID(x); ok {
				id, ok := vs.topics[name]
				if !ok { // an id that no topic has
					id = x
					id[0] = noTopicMark
				}
				p.v.Set(reflect.ValueOf(id))
			}
		case []byte:
			if p.field == "Records" {
				vs.fillBatches(x)
			}
		}
	}
	return req
}

func valueOr[V any](m map[int]V, k int, or V) V {
	if v, ok := m[k]; ok {
		return v
	}
	return or
}

func (vs *values) text(s string) string {
	if s == clusterMark {
		return vs.clusterID
	}
	if rest, ok := strings.CutPrefix(s, memberMark); ok {
		n, err := strconv.Atoi(rest)
		if err != nil {
			return s
		}
		return vs.members[n]
	}
	return s
}

// Places in a record batch of format 2.
const (
	batchLengthAt   = 8
	batchMagicAt    = 16
	batchCRCAt      = 17
	batchAttrsAt    = 21
	batchProducerAt = 43
	batchHeaderLen  = 61
)

// fillBatches sets producer ids in place; a checksum that was right stays right.
func (vs *values) fillBatches(b []byte) {
	for len(b) >= batchHeaderLen && b[batchMagicAt] == 2 {
		end := int64(int32(binary.BigEndian.Uint32(b[batchLengthAt:]))) + 12
		if end < batchHeaderLen || end > int64(len(b)) {
			return
		}
		one := b[:end]
		id := int64(binary.BigEndian.Uint64(one[batchProducerAt:]))
		if n := id - producerBase; n >= 0 && n < stepsMax {
			right := binary.BigEndian.Uint32(one[batchCRCAt:]) == castagnoli(one[batchAttrsAt:])
			binary.BigEndian.PutUint64(one[batchProducerAt:], uint64(valueOr(vs.producers, int(n), -1)))
			if right {
				binary.BigEndian.PutUint32(one[batchCRCAt:], castagnoli(one[batchAttrsAt:]))
			}
		}
		b = b[end:]
	}
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crcTable) }
