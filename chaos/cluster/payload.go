package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"

	"millrace/chaos/check"
)

// A record's value says who sent it: producer (4 bytes), sequence (8 bytes),
// then filler that depends on the sequence.
const payloadHead = 12

// filler is long enough for the largest value at any start.
var filler = func() []byte {
	r := rand.NewChaCha8([32]byte{1})
	b := make([]byte, 2<<20)
	_, _ = r.Read(b)
	return b
}()

const fillerStarts = 1 << 16

func payload(k check.Key, size int) []byte {
	b := make([]byte, max(size, payloadHead))
	binary.BigEndian.PutUint32(b, uint32(k.Producer))
	binary.BigEndian.PutUint64(b[4:], uint64(k.Seq))
	copy(b[payloadHead:], filler[uint64(k.Seq)*2654435761%fillerStarts:])
	return b
}

func sum(value []byte) uint64 { return xxhash.Sum64(value) }

// parse reads the key back. Errors: the value is none of ours.
func parse(value []byte) (check.Key, error) {
	if len(value) < payloadHead {
		return check.Key{}, fmt.Errorf("a value of %d bytes, which nobody sent", len(value))
	}
	return check.Key{Producer: int32(binary.BigEndian.Uint32(value)), Seq: int64(binary.BigEndian.Uint64(value[4:]))}, nil
}
