package kafka

import (
	"encoding/binary"
	"errors"
	"strings"
)

// header is a request header (versions 1 and 2 of Kafka's RequestHeader).
type header struct {
	key, version  int16
	correlationID int32
	clientID      string // "" where the client gave none
}

var errShortHeader = errors.New("the request header is cut short")

// keyVersionBytes is what of a header can be read without knowing the API.
const keyVersionBytes = 8

// parseKeyVersion reads the part of a header that is the same for all APIs.
func parseKeyVersion(b []byte) (h header, rest []byte, err error) {
	if len(b) < keyVersionBytes {
		return h, nil, errShortHeader
	}
	h.key = int16(binary.BigEndian.Uint16(b))
	h.version = int16(binary.BigEndian.Uint16(b[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(b[4:]))
	return h, b[keyVersionBytes:], nil
}

// parseClientID reads what follows: the client id, whose length is fixed-width
// in flexible versions too (any negative length is null), and then the tagged fields,
// none of which are known.
func (h *header) parseClientID(b []byte, flexible bool) (rest []byte, err error) {
	if len(b) < 2 {
		return nil, errShortHeader
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n > len(b):
		return nil, errShortHeader
	case n > 0:
		h.clientID = strings.ToValidUTF8(string(b[:n]), "\uFFFD")
		h.clientID = h.clientID[:textEnd(h.clientID)]
		b = b[n:]
	}
	if flexible {
		return skipTags(b)
	}
	return b, nil
}

// skipTags passes over a section of tagged fields (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, b, ok := uvarint(b)
	if !ok {
		return nil, errShortHeader
	}
	for ; count > 0; count-- {
		var size uint32
		if _, b, ok = uvarint(b); !ok {
			return nil, errShortHeader
		}
		if size, b, ok = uvarint(b); !ok || uint64(size) > uint64(len(b)) {
			return nil, errShortHeader
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads an unsigned varint of at most 32 bits.
func uvarint(b []byte) (v uint32, rest []byte, ok bool) {
	for i := 0; i < 5 && i < len(b); i++ {
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, b[i+1:], i < 4 || b[i] < 0x10
		}
	}
	return 0, nil, false
}

// appendReplyHeader starts a response frame: room for the length prefix, the
// correlation id, and in flexible versions (never for ApiVersions, KIP-511) an
// empty section of tagged fields.
func appendReplyHeader(dst []byte, correlationID int32, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// setFrameLength writes the length prefix of a frame of n bytes in all.
func setFrameLength(frame []byte, n int) { binary.BigEndian.PutUint32(frame, uint32(n-4)) }
