package kafka

import (
	"encoding/binary"
	"errors"
)

// errTruncated is what decoding gives for bytes that end too early or whose
// lengths cannot be.
var errTruncated = errors.New("the request is cut short or malformed")

// decoder reads the fields of a request from its bytes, without copying. The
// first fault sticks: later reads give zero values.
type decoder struct {
	b        []byte
	flexible bool
	err      error
}

func (d *decoder) fail() { d.err, d.b = errTruncated, nil }

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) int16() int16 {
	if p := d.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if p := d.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// length reads the length of a string, bytes or array; what is negative is null
// (-1), as in Kafka. fixed is the width of the length in versions that are not
// flexible.
func (d *decoder) length(fixed int) int {
	if d.flexible {
		v, rest, ok := uvarint(d.b)
		if !ok {
			d.fail()
			return -1
		}
		d.b = rest
		return int(v) - 1
	}
	var n int
	if fixed == 2 {
		n = int(d.int16())
	} else {
		n = int(d.int32())
	}
	return max(n, -1)
}

// array reads the length of an array whose elements take at least elem bytes,
// so that a length that the bytes cannot hold is refused before memory is made
// for it, as null is.
func (d *decoder) array(elem int) int {
	n := d.length(4)
	if n < 0 || n > len(d.b)/elem {
		d.fail()
		return 0
	}
	return n
}

// string aliases the request; ok is false for null.
func (d *decoder) string() (s []byte, ok bool) {
	n := d.length(2)
	switch {
	case n > textBytesMax:
		d.fail()
		return nil, false
	case n < 0:
		return nil, false
	}
	return d.take(n), true
}

// mustString is string where null is not allowed.
func (d *decoder) mustString() []byte {
	s, ok := d.string()
	if !ok {
		d.fail()
	}
	return s
}

// bytes gives the position of a bytes field in the slice that is decoded;
// begin is -1 for null.
func (d *decoder) bytes(whole []byte) (begin, end int) {
	n := d.length(4)
	if n < 0 || d.err != nil {
		return -1, -1
	}
	begin = len(whole) - len(d.b)
	if d.take(n); d.err != nil {
		return -1, -1
	}
	return begin, begin + n
}

// tags passes over tagged fields.
func (d *decoder) tags() {
	if !d.flexible || d.err != nil {
		return
	}
	rest, err := skipTags(d.b)
	if err != nil {
		d.fail()
		return
	}
	d.b = rest
}

// encoder appends the fields of a response.
type encoder struct {
	b        []byte
	flexible bool
}

func (e *encoder) int16(v int16) { e.b = binary.BigEndian.AppendUint16(e.b, uint16(v)) }
func (e *encoder) int32(v int32) { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) int64(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) uvarint(v uint32) { e.b = binary.AppendUvarint(e.b, uint64(v)) }

// length writes the length of a bytes field or array; -1 is null.
func (e *encoder) length(n int) {
	if e.flexible {
		e.uvarint(uint32(n + 1))
	} else {
		e.int32(int32(n))
	}
}

func (e *encoder) string(s string) {
	if e.flexible {
		e.uvarint(uint32(len(s) + 1))
	} else {
		e.int16(int16(len(s)))
	}
	e.b = append(e.b, s...)
}

// nullableString writes null for "".
func (e *encoder) nullableString(s string) {
	switch {
	case s != "":
		e.string(s)
	case e.flexible:
		e.uvarint(0)
	default:
		e.int16(-1)
	}
}

// noTags writes an empty section of tagged fields.
func (e *encoder) noTags() {
	if e.flexible {
		e.b = append(e.b, 0)
	}
}

// leaderTag writes a tagged CurrentLeader (KIP-951): id, epoch, no tags inside.
func (e *encoder) leaderTag(tag uint32, leader, epoch int32) {
	e.uvarint(tag)
	e.uvarint(9)
	e.int32(leader)
	e.int32(epoch)
	e.b = append(e.b, 0)
}
