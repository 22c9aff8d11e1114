// Package draw makes values out of the bytes of a fuzz target, so that the fuzzer
// changes the fields of something well-formed where bytes at random would hardly
// ever be well-formed.
//
// Only tests use it. It runs on the caller's goroutine, blocks on nothing, keeps
// nothing durable, and the same bytes always give the same values. Read Source.Fill
// first.
package draw

import (
	"encoding/binary"
	"math"
	"reflect"
	"strings"
)

// Source gives values from bytes, one after the other. When the bytes are used up
// all values are zeros, or the defaults of what is filled. The zero Source is one
// without bytes.
type Source struct {
	// Texts, Numbers and Bytes are the likely values of a field, by its name; IDs
	// those of a field of 16 bytes. Rare says that a list or pointer is mostly null.
	// Any may be nil.
	Texts   func(field string) []string
	Numbers func(field string) []int64
	Bytes   func(field string) [][]byte
	IDs     [][16]byte
	Rare    func(field string) bool
	// Last is the text drawn last: values depend on the name before them.
	Last string

	b []byte
}

// New makes a Source of b.
func New(b []byte) *Source { return &Source{b: b} }

// Done says that no byte is left.
func (s *Source) Done() bool { return len(s.b) == 0 }

// Byte takes the next byte.
func (s *Source) Byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	b := s.b[0]
	s.b = s.b[1:]
	return b
}

// N is a number of [0, n), for n up to 256.
func (s *Source) N(n int) int { return int(s.Byte()) % n }

// Uint64 takes eight bytes.
func (s *Source) Uint64() uint64 {
	var b [8]byte
	s.b = s.b[copy(b[:], s.b):]
	return binary.BigEndian.Uint64(b[:])
}

// Raw takes the next bytes as they are: as many as the first of them says, mostly
// few.
func (s *Source) Raw() []byte {
	n := int(s.Byte())
	if n < 224 {
		n %= 16
	}
	n = min(n, len(s.b))
	out := s.b[:n:n]
	s.b = s.b[n:]
	return out
}

// longest is the longest string of the protocol.
const longest = 1<<15 - 1

// Text is mostly one of likely; else it is empty, long, of characters that are
// longer when they are quoted, or any bytes.
func (s *Source) Text(likely []string) string {
	n := s.Byte()
	if int(n) < 240 && len(likely) > 0 {
		return likely[int(n)%len(likely)]
	}
	switch n % 8 {
	case 0:
		return ""
	case 1:
		return strings.Repeat("x", longest)
	case 2:
		return strings.Repeat("\x00", 1+int(s.Byte()&0x3f)<<8|int(s.Byte()))
	case 3:
		return strings.Repeat("ä", 1+s.N(200))
	default:
		return string(s.Raw())
	}
}

// Number is mostly one of likely, or def where there are none; else it is small, at
// an end of the range of so many bits, or any.
func (s *Source) Number(def int64, likely []int64, bits int) int64 {
	low, high := int64(math.MinInt64)>>(64-bits), int64(math.MaxInt64)>>(64-bits)
	switch n := s.Byte(); {
	case n < 216 && len(likely) > 0:
		return likely[int(n)%len(likely)]
	case n < 128:
		return def
	case n < 240:
		return int64(n % 8)
	case n < 244:
		return -1
	case n < 246:
		return low
	case n < 248:
		return high
	default:
		return int64(s.Uint64()) >> (64 - bits)
	}
}

// float is what a quota may be set to, and what not.
func (s *Source) float() float64 {
	likely := []float64{0, 1, 0.5, 1000, -1, math.NaN(), math.Inf(1), math.MaxInt64, 1 << 31, math.Copysign(0, -1)}
	if n := s.Byte(); int(n) < 240 {
		return likely[int(n)%len(likely)]
	}
	return math.Float64frombits(s.Uint64())
}

// listMax is the length of most lists that have more than one element, so that
// lists in lists stay small.
const listMax = 6

// Fill sets all fields of the struct that v points to, and of what is below it,
// but those called Version and UnknownTags. A type with a method Default has its
// defaults first, and they are the likeliest numbers.
func (s *Source) Fill(v any) { s.fill(reflect.ValueOf(v).Elem(), "") }

func (s *Source) fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "UnknownTags" && f.Name != "Version" {
				s.fill(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		s.fillSlice(v, name)
	case reflect.Pointer:
		if null := s.Byte()%4 == 3; null != s.rare(name) {
			v.SetZero()
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		s.fill(v.Elem(), name)
	case reflect.Array: // an ID
		id := reflect.ValueOf(s.id())
		v.Set(id.Convert(v.Type()))
	case reflect.String:
		s.Last = s.Text(list(s.Texts, name))
		v.SetString(s.Last)
	case reflect.Bool:
		v.SetBool(s.Byte()%4 == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(s.Number(v.Int(), list(s.Numbers, name), v.Type().Bits()))
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(s.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(s.float())
	default:
		panic("BUG: nothing is drawn for a " + v.Kind().String())
	}
}

func (s *Source) fillSlice(v reflect.Value, name string) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(s.bytes(list(s.Bytes, name)))
		return
	}
	n := 0
	switch b := s.Byte(); {
	case b < 192 && s.rare(name):
		v.SetZero()
		return
	case s.Done() && b == 0: // nothing more comes
	case b < 128:
		n = 1
	case b < 240:
		n = int(b) % (listMax + 1)
	case b < 248:
		v.SetZero()
		return
	default:
		n = min(int(b)*4, len(s.b)) // one byte for each at least
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		s.fill(v.Index(i), name)
	}
}

func (s *Source) bytes(likely [][]byte) []byte {
	switch n := s.Byte(); {
	case n < 200 && len(likely) > 0:
		return append([]byte{}, likely[int(n)%len(likely)]...)
	case n < 220:
		return nil
	default:
		return append([]byte{}, s.Raw()...)
	}
}

func (s *Source) id() (id [16]byte) {
	n := s.Byte()
	switch {
	case n < 200 && len(s.IDs) > 0:
		return s.IDs[int(n)%len(s.IDs)]
	case n < 220:
		return id
	}
	copy(id[:], s.Raw())
	return id
}

func (s *Source) rare(name string) bool { return s.Rare != nil && s.Rare(name) }

func list[T any](of func(string) []T, name string) []T {
	if of == nil {
		return nil
	}
	return of(name)
}
