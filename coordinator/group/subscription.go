package group

import (
	"encoding/binary"
	"unicode/utf8"
)

// subscribedTopics reads the topics out of a member's subscription (the
// metadata of protocol type "consumer"): int16 version, int32 count, and per
// topic an int16 length and its name. What follows depends on the version and
// does not matter here. ok is false where the bytes are not that.
func subscribedTopics(b []byte) (topics []string, ok bool) {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return nil, false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if n < 0 || int64(n) > int64(len(b)/2) {
		return nil, false
	}
	topics = make([]string, 0, n)
	for range n {
		if len(b) < 2 {
			return nil, false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if size < 0 || size > len(b) || !utf8.Valid(b[:size]) {
			return nil, false
		}
		topics = append(topics, string(b[:size]))
		b = b[size:]
	}
	return topics, true
}
