package group

import (
	"encoding/binary"
	"unicode/utf8"
)

// subscribedTopics reads the topics out of a member's subscription (the
// metadata of protocol type "consumer"): int16 version, int32 count, and per
// topic an int16 length and its name. What follows depends on the version and
// does not matter here. each is called with every name, and says whether to go
// on. False where it said no, or where the bytes are not that.
func subscribedTopics(b []byte, each func(topic []byte) bool) bool {
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	if n < 0 || int64(n) > int64(len(b)/2) {
		return false
	}
	for range n {
		if len(b) < 2 {
			return false
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		b = b[2:]
		if size < 0 || size > len(b) || !utf8.Valid(b[:size]) || !each(b[:size]) {
			return false
		}
		b = b[size:]
	}
	return true
}
