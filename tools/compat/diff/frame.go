package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// MutationKind says what a Mutation does to the bytes of a request.
type MutationKind int

const (
	// lengthIs overwrites the length of the string, bytes or array at Path by
	// Value; -1 is null.
	lengthIs MutationKind = iota
	// cutBody drops the last Value bytes of the body.
	cutBody
	// appendBody adds Value bytes behind the body.
	appendBody
	// bodyTag adds an unknown tagged field to the body's last section.
	bodyTag
	// headerTag adds an unknown tagged field to the header.
	headerTag
	// headerFlip writes the header of the other kind: tags where there must be
	// none and the reverse.
	headerFlip
	// clientID sets the client id: Value -1 null, 0 empty, 1 not UTF-8, 2 long,
	// 3 with a length of -2, 4 with a length beyond the frame.
	clientID
	// versionIs overwrites the version in the header, and keyIs the API key.
	versionIs
	keyIs
	// frameLength overwrites the length prefix.
	frameLength
	// shortFrame keeps only the first Value bytes of the frame.
	shortFrame
)

var mutationNames = [...]string{
	"length", "cut body by", "append to body", "unknown tag in body", "unknown tag in header",
	"header of the other kind", "client id form", "version", "key", "frame length", "keep of the frame",
}

// Mutation is one change of the encoded bytes.
type Mutation struct {
	Kind  MutationKind
	Path  string
	Value int64
}

func (m Mutation) String() string {
	if m.Path != "" {
		return fmt.Sprintf("%s of %s = %d", mutationNames[m.Kind], m.Path, m.Value)
	}
	return fmt.Sprintf("%s %d", mutationNames[m.Kind], m.Value)
}

// encodeFrame writes a step as a frame with its length prefix. req has its
// placeholders filled, and prefix takes the place of prefixToken.
func encodeFrame(st *Step, req kmsg.Request, correlation int32, prefix string) []byte {
	key, version, flexible := req.Key(), req.GetVersion(), req.IsFlexible()
	client := []byte(cmp.Or(st.Client, fmt.Sprintf("c%d", st.Conn)))
	clientLen := int16(len(client))
	var headerTags []byte
	length := int64(math.MinInt64)
	keep := -1
	body := mutateLengths(req, st.Mutations)
	for _, m := range st.Mutations {
		switch m.Kind {
		case cutBody:
			body = body[:max(0, len(body)-int(m.Value))]
		case appendBody:
			body = append(body, bytes.Repeat([]byte{1}, int(m.Value))...)
		case bodyTag:
			if flexible && len(body) > 0 && body[len(body)-1] == 0 {
				body = append(body[:len(body)-1], 1, 99, 3, 'a', 'b', 'c')
			}
		case headerTag:
			headerTags = []byte{99, 2, 'h', 'i'}
		case headerFlip:
			flexible = !flexible
		case clientID:
			client, clientLen = clientIDForm(m.Value, client)
		case versionIs:
			version = int16(m.Value)
		case keyIs:
			key = int16(m.Value)
		case frameLength:
			length = m.Value
		case shortFrame:
			keep = int(m.Value)
		}
	}
	b := make([]byte, 4, 64+len(body))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, uint16(clientLen))
	b = append(b, client...)
	switch {
	case flexible && headerTags != nil:
		b = append(append(b, 1), headerTags...)
	case flexible:
		b = append(b, 0)
	}
	b = append(b, body...)
	if keep >= 0 && keep+4 < len(b) {
		b = b[:keep+4]
	}
	if length == math.MinInt64 {
		length = int64(len(b) - 4)
	}
	binary.BigEndian.PutUint32(b, uint32(int32(length)))
	return bytes.ReplaceAll(b, []byte(prefixToken), []byte(prefix))
}

func clientIDForm(form int64, normal []byte) ([]byte, int16) {
	switch form {
	case -1:
		return nil, -1
	case 0:
		return nil, 0
	case 1:
		return []byte{'c', 0xC3, 0x28, 0xFF}, 4
	case 2:
		return bytes.Repeat([]byte{'c'}, 300), 300
	case 3:
		return nil, -2
	}
	return normal, 32767
}

// mutateLengths encodes the body and overwrites lengths in it. kmsg does not say
// where a field is in the bytes; the first byte that changes when the field does
// tells. The last length mutation that finds its field counts.
func mutateLengths(req kmsg.Request, mutations []Mutation) []byte {
	body := req.AppendTo(nil)
	for _, m := range mutations {
		if m.Kind != lengthIs {
			continue
		}
		at, width := lengthAt(req, m.Path)
		if width == 0 {
			continue
		}
		if m.Value < 0 { // without contents, so that what follows is read as it is meant
			req = copyRequest(req)
			setLength(req, m.Path, 0)
		}
		body = replaceLength(req.AppendTo(nil), at, width, m.Value)
	}
	return body
}

// lengthAt finds the length of the field at path: its place in the body and its
// width in bytes (1 is a varint); width 0 where this version does not have it.
func lengthAt(req kmsg.Request, path string) (at, width int) {
	one, two := copyRequest(req), copyRequest(req)
	if !setLength(one, path, 0) || !setLength(two, path, 1) {
		return 0, 0
	}
	a, b := one.AppendTo(nil), two.AppendTo(nil)
	at = 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	if at == len(a) && at == len(b) {
		return 0, 0
	}
	p, _ := find(req, path)
	switch {
	case req.IsFlexible():
		return at, 1
	case p.v.Kind() == reflect.String || p.v.Kind() == reflect.Pointer:
		return at - 1, 2
	}
	return at - 3, 4
}

// setLength gives the field at path n elements or bytes.
func setLength(req kmsg.Request, path string, n int) bool {
	p, ok := find(req, path)
	if !ok {
		return false
	}
	switch p.v.Kind() {
	case reflect.String:
		p.v.SetString("xx"[:n])
	case reflect.Pointer:
		if p.v.Type().Elem().Kind() != reflect.String {
			return false
		}
		s := "xx"[:n]
		p.v.Set(reflect.ValueOf(&s))
	case reflect.Slice:
		p.v.Set(reflect.MakeSlice(p.v.Type(), n, n))
	default:
		return false
	}
	return true
}

// replaceLength writes a length over the one at a place and leaves the rest.
func replaceLength(body []byte, at, width int, value int64) []byte {
	if at < 0 || at+width > len(body) {
		return body
	}
	switch width {
	case 2:
		binary.BigEndian.PutUint16(body[at:], uint16(value))
	case 4:
		binary.BigEndian.PutUint32(body[at:], uint32(value))
	default:
		_, n := binary.Uvarint(body[at:])
		tail := bytes.Clone(body[at+max(n, 1):])
		body = binary.AppendUvarint(body[:at], uint64(uint32(value+1)))
		body = append(body, tail...)
	}
	return body
}
