package group

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// Versions of the records written, as Kafka 4.4 writes them. Older ones are
// read too.
const (
	offsetKeyVersion   = 1
	offsetValueVersion = 4 // topic ID in a tagged field
	offsetValueExpires = 1 // the one with an expiry of its own
	offsetValueNoID    = 3
	// offsetImageTag is a tagged field of our own in an offset's value: the Version
	// of the metadata that knew the topic when the offset was committed, a uvarint.
	offsetImageTag    = 10000
	groupKeyVersion   = 2
	groupValueVersion = 3
)

var errFormat = errors.New("malformed")

// topicPartition is what an offset is committed for.
type topicPartition struct {
	topic     string
	partition int32
}

// committed is one committed offset.
type committed struct {
	offset      int64
	leaderEpoch int32
	metadata    string
	commitMs    int64
	expireMs    int64 // own expiry (OffsetCommit v2 to v4), or -1
	topicID     core.TopicID
	image       uint64 // Version of the metadata that had the topic then; 0: not known
	bytes       int64  // in the log
}

// decodedRecord is one record of the log; metadata is nil for an offset.
type decodedRecord struct {
	group    string
	isOffset bool
	at       topicPartition
	offset   *committed               // nil: tombstone
	metadata *kmsg.GroupMetadataValue // nil: tombstone
}

func encodeOffset(group string, at topicPartition, c *committed) core.Record {
	k := kmsg.OffsetCommitKey{Version: offsetKeyVersion, Group: group, Topic: at.topic, Partition: at.partition}
	r := core.Record{Key: k.AppendTo(nil)}
	if c == nil {
		return r
	}
	v := kmsg.NewOffsetCommitValue()
	switch {
	case c.expireMs >= 0:
		v.Version = offsetValueExpires
	case c.topicID == core.TopicID{}:
		v.Version = offsetValueNoID
	default:
		v.Version = offsetValueVersion
	}
	v.Offset, v.LeaderEpoch, v.Metadata = c.offset, c.leaderEpoch, c.metadata
	v.CommitTimestamp, v.ExpireTimestamp, v.TopicID = c.commitMs, c.expireMs, c.topicID
	if c.image > 0 {
		v.UnknownTags.Set(offsetImageTag, binary.AppendUvarint(nil, c.image))
	}
	r.Value = v.AppendTo(nil)
	return r
}

func groupKey(group string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupKeyVersion, Group: group}
	return k.AppendTo(nil)
}

// decodeRecord checks and decodes one record. What it returns shares no memory
// with r.
func decodeRecord(r core.Record) (d decodedRecord, err error) {
	if len(r.Key) < 2 {
		return d, fmt.Errorf("%w: a key of %d bytes", errFormat, len(r.Key))
	}
	switch v := int16(binary.BigEndian.Uint16(r.Key)); v {
	case 0, offsetKeyVersion:
		return decodeOffset(r)
	case groupKeyVersion:
		return decodeGroup(r)
	default:
		return d, fmt.Errorf("%w: key version %d", errFormat, v)
	}
}

func decodeOffset(r core.Record) (d decodedRecord, err error) {
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(r.Key); err != nil {
		return d, fmt.Errorf("%w: offset key: %w", errFormat, err)
	}
	d = decodedRecord{group: k.Group, isOffset: true, at: topicPartition{k.Topic, k.Partition}}
	if r.Value == nil {
		return d, nil
	}
	if version := valueVersion(r.Value); version < 0 || version > offsetValueVersion {
		return d, fmt.Errorf("%w: offset value version %d", errFormat, version)
	}
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(r.Value); err != nil {
		return d, fmt.Errorf("%w: offset value: %w", errFormat, err)
	}
	d.offset = &committed{offset: v.Offset, leaderEpoch: -1, metadata: v.Metadata, commitMs: v.CommitTimestamp, expireMs: -1, topicID: v.TopicID, bytes: recordBytes(r)}
	if v.Version >= 3 {
		d.offset.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == offsetValueExpires {
		d.offset.expireMs = v.ExpireTimestamp
	}
	v.UnknownTags.Each(func(tag uint32, b []byte) {
		// What does not decode counts as not known: the offset is kept.
		if image, n := binary.Uvarint(b); tag == offsetImageTag && n == len(b) && n > 0 {
			d.offset.image = image
		}
	})
	return d, nil
}

func decodeGroup(r core.Record) (d decodedRecord, err error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(r.Key); err != nil {
		return d, fmt.Errorf("%w: group key: %w", errFormat, err)
	}
	d = decodedRecord{group: k.Group}
	if r.Value == nil {
		return d, nil
	}
	if version := valueVersion(r.Value); version < 0 || version > groupValueVersion {
		return d, fmt.Errorf("%w: group value version %d", errFormat, version)
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(bytes.Clone(r.Value)); err != nil {
		return d, fmt.Errorf("%w: group value: %w", errFormat, err)
	}
	d.metadata = &v
	return d, nil
}

func valueVersion(b []byte) int16 {
	if len(b) < 2 {
		return -1
	}
	return int16(binary.BigEndian.Uint16(b))
}
