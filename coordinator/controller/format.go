package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"millrace/core"
	"millrace/core/meta"
)

// formatVersion is the first byte of every key and value.
const formatVersion = 1

// Kinds of records: the second byte of a key. Integers are big-endian where a
// width is given; uvarint is as in encoding/binary; string is a uvarint length
// and the bytes.
//
//	kind         key after (1, kind)        value after (1)
//	cluster      -                          string: cluster ID
//	controller   -                          uint32 node
//	broker       uint32 node                string host, uint32 port, string rack
//	topic        16 bytes topic ID          string name, byte flags (1 = internal),
//	                                        uvarint n, n partitions by number, each:
//	                                        uvarint partition ID, uvarint m, m x uvarint node
//	configs      byte resource, then        uvarint n, n x (string name, string value),
//	             topic 2: topic ID          sorted by name: all explicit settings
//	             broker 4: uint32 node      of the resource
//	             cluster 0: -
//	counters     -                          uvarint next partition ID,
//	                                        uvarint next producer ID
//	quotas       an entity: one or more     uvarint n, n x (string name, uint64 bits
//	             parts by kind, each:       of a float64), sorted by name: all quotas
//	             byte kind (1 user,         of the entity
//	             2 client ID, 3 IP), byte
//	             default (0 or 1), string
//	             name, empty for a default
//
// A later record replaces an earlier one with the same key. A tombstone of a
// topic also ends its partitions and configs; of a broker, of configs or of
// quotas it removes just that.
const (
	kindCluster    = 1
	kindController = 2
	kindBroker     = 3
	kindTopic      = 4
	kindConfigs    = 5
	kindCounters   = 6
	kindQuotas     = 7
)

// Resources of a configs record.
const (
	resourceCluster = 0
	resourceTopic   = 2
	resourceBroker  = 4
)

const flagInternal = 1

var errFormat = errors.New("malformed")

// decoded is one record after decoding; which fields are set depends on kind.
type decoded struct {
	kind     byte
	deleted  bool // tombstone
	text     string
	node     core.NodeID
	broker   meta.Broker
	topicID  core.TopicID
	topic    *meta.Topic // without configs and leader cells
	resource byte
	configs  map[string]string
	entity   meta.QuotaEntity
	quotas   map[string]float64

	nextPartition core.PartitionID
	nextProducer  int64
}

func key(kind byte, id ...byte) []byte { return append([]byte{formatVersion, kind}, id...) }

func nodeBytes(n core.NodeID) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func encodeCluster(id string) core.Record {
	return core.Record{Key: key(kindCluster), Value: appendString([]byte{formatVersion}, id)}
}

func encodeController(n core.NodeID) core.Record {
	return core.Record{Key: key(kindController), Value: append([]byte{formatVersion}, nodeBytes(n)...)}
}

func encodeBroker(b meta.Broker) core.Record {
	v := appendString([]byte{formatVersion}, b.Host)
	v = binary.BigEndian.AppendUint32(v, uint32(b.Port))
	return core.Record{Key: key(kindBroker, nodeBytes(b.ID)...), Value: appendString(v, b.Rack)}
}

func encodeTopic(t *meta.Topic) core.Record {
	v := appendString([]byte{formatVersion}, t.Name)
	var flags byte
	if t.Internal {
		flags |= flagInternal
	}
	v = binary.AppendUvarint(append(v, flags), uint64(len(t.Partitions)))
	for _, p := range t.Partitions {
		v = binary.AppendUvarint(v, uint64(p.ID))
		v = binary.AppendUvarint(v, uint64(len(p.Replicas)))
		for _, r := range p.Replicas {
			v = binary.AppendUvarint(v, uint64(uint32(r)))
		}
	}
	return core.Record{Key: key(kindTopic, t.ID[:]...), Value: v}
}

func encodeTopicDeleted(id core.TopicID) core.Record {
	return core.Record{Key: key(kindTopic, id[:]...)}
}

// encodeConfigs writes a tombstone where no setting is left.
func encodeConfigs(resource byte, id []byte, configs map[string]string) core.Record {
	r := core.Record{Key: append(key(kindConfigs, resource), id...)}
	if len(configs) == 0 {
		return r
	}
	r.Value = binary.AppendUvarint([]byte{formatVersion}, uint64(len(configs)))
	for _, name := range sortedKeys(configs) {
		r.Value = appendString(appendString(r.Value, name), configs[name])
	}
	return r
}

// encodeQuotas writes a tombstone where no quota is left.
func encodeQuotas(e meta.QuotaEntity, quotas map[string]float64) core.Record {
	r := core.Record{Key: key(kindQuotas)}
	for kind, m := range e {
		if m.Used {
			isDefault := byte(0)
			if m.Default {
				isDefault = 1
			}
			r.Key = appendString(append(r.Key, byte(kind+1), isDefault), m.Name)
		}
	}
	if len(quotas) == 0 {
		return r
	}
	r.Value = binary.AppendUvarint([]byte{formatVersion}, uint64(len(quotas)))
	for _, name := range sortedKeys(quotas) {
		r.Value = binary.BigEndian.AppendUint64(appendString(r.Value, name), math.Float64bits(quotas[name]))
	}
	return r
}

// entity reads what is left as the parts of an entity, in order of their kinds.
func (r *reader) entity() (e meta.QuotaEntity) {
	next := byte(1)
	for !r.bad && (len(r.b) > 0 || next == 1) {
		kind, isDefault, name := r.byte(), r.byte(), r.string()
		if kind < next || int(kind) > len(e) || isDefault > 1 || (isDefault == 1) != (name == "") {
			r.bad = true
			return e
		}
		e[kind-1] = meta.QuotaMatch{Used: true, Default: isDefault == 1, Name: name}
		next = kind + 1
	}
	return e
}

func encodeCounters(partition core.PartitionID, producer int64) core.Record {
	v := binary.AppendUvarint([]byte{formatVersion}, uint64(partition))
	return core.Record{Key: key(kindCounters), Value: binary.AppendUvarint(v, uint64(producer))}
}

// reader cuts fields off a byte string; the first fault sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// uvarint takes only the shortest form: one thing has one key.
func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || n > 1 && r.b[n-1] == 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) string() string { return string(r.take(r.uvarint())) }

func (r *reader) node() core.NodeID {
	v := r.uint32()
	if v > math.MaxInt32 {
		r.bad = true
	}
	return core.NodeID(v)
}

func (r *reader) topicID() (id core.TopicID) {
	copy(id[:], r.take(uint64(len(id))))
	return id
}

// count reads the length of a list whose elements take at least size bytes.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b)/size) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) done() bool { return !r.bad && len(r.b) == 0 }

// decodeRecord checks and decodes one record. It copies what it keeps.
func decodeRecord(rec core.Record) (decoded, error) {
	k := reader{b: rec.Key}
	if v := k.byte(); k.bad || v != formatVersion {
		return decoded{}, fmt.Errorf("%w: key version %d, this build knows %d", errFormat, v, formatVersion)
	}
	d := decoded{kind: k.byte(), deleted: rec.Value == nil}
	switch d.kind {
	case kindCluster, kindController, kindCounters:
	case kindBroker:
		d.node = k.node()
	case kindTopic:
		d.topicID = k.topicID()
	case kindQuotas:
		d.entity = k.entity()
	case kindConfigs:
		switch d.resource = k.byte(); d.resource {
		case resourceTopic:
			d.topicID = k.topicID()
		case resourceBroker:
			d.node = k.node()
		case resourceCluster:
		default:
			return d, fmt.Errorf("%w: configs of unknown resource %d", errFormat, d.resource)
		}
	default:
		return d, fmt.Errorf("%w: unknown kind %d", errFormat, d.kind)
	}
	if !k.done() {
		return d, fmt.Errorf("%w: key of kind %d", errFormat, d.kind)
	}
	if d.deleted {
		if d.kind == kindBroker || d.kind == kindTopic || d.kind == kindConfigs || d.kind == kindQuotas {
			return d, nil
		}
		return d, fmt.Errorf("%w: kind %d cannot be removed", errFormat, d.kind)
	}
	v := reader{b: rec.Value}
	if ver := v.byte(); v.bad || ver != formatVersion {
		return d, fmt.Errorf("%w: value version %d of kind %d, this build knows %d", errFormat, ver, d.kind, formatVersion)
	}
	d.value(&v)
	if !v.done() {
		return d, fmt.Errorf("%w: value of kind %d", errFormat, d.kind)
	}
	return d, nil
}

func (d *decoded) value(v *reader) {
	switch d.kind {
	case kindCluster:
		d.text = v.string()
	case kindController:
		d.node = v.node()
	case kindBroker:
		d.broker = meta.Broker{ID: d.node, Host: v.string(), Port: int32(v.uint32()), Rack: v.string()}
	case kindTopic:
		d.topic = decodeTopic(d.topicID, v)
	case kindConfigs:
		n := v.count(2)
		d.configs = make(map[string]string, n)
		for range n {
			name := v.string()
			d.configs[name] = v.string()
		}
	case kindQuotas:
		n := v.count(9) // an empty name and its bits
		d.quotas = make(map[string]float64, n)
		for range n {
			name := v.string()
			d.quotas[name] = math.Float64frombits(v.uint64())
		}
	case kindCounters:
		d.nextPartition = core.PartitionID(v.uvarint())
		d.nextProducer = int64(v.uvarint())
		if d.nextProducer < 0 {
			v.bad = true
		}
	}
}

func decodeTopic(id core.TopicID, v *reader) *meta.Topic {
	t := &meta.Topic{ID: id, Name: v.string()}
	flags := v.byte()
	if flags&^flagInternal != 0 {
		v.bad = true
	}
	t.Internal = flags&flagInternal != 0
	n := v.count(2)
	parts := make([]meta.Partition, n)
	t.Partitions = make([]*meta.Partition, n)
	for i := range parts {
		p := &parts[i]
		p.ID, p.Num = core.PartitionID(v.uvarint()), int32(i)
		m := v.count(1)
		p.Replicas = make([]core.NodeID, m)
		for j := range p.Replicas {
			node := v.uvarint()
			if node > math.MaxInt32 {
				v.bad = true
			}
			p.Replicas[j] = core.NodeID(node)
		}
		if v.bad {
			return t
		}
		t.Partitions[i] = p
	}
	return t
}
