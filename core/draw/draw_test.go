package draw

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRequestsThatAreDrawnCanBeSent draws every request in every version: what is
// written decodes, and is the same when it is drawn again.
func TestRequestsThatAreDrawnCanBeSent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		for v := int16(0); v <= req.MaxVersion(); v++ {
			b := make([]byte, 300)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			var wires [][]byte
			for range 2 {
				req = kmsg.RequestForKey(key)
				New(b).Fill(req)
				req.SetVersion(v)
				wires = append(wires, req.AppendTo(nil))
			}
			again := kmsg.RequestForKey(key)
			again.SetVersion(v)
			if err := again.ReadFrom(wires[0]); err != nil || !bytes.Equal(again.AppendTo(nil), wires[0]) {
				t.Errorf("%s version %d does not decode (%v)", kmsg.Key(key).Name(), v, err)
			}
			if !bytes.Equal(wires[0], wires[1]) {
				t.Errorf("%s version %d is drawn in two ways from the same bytes", kmsg.Key(key).Name(), v)
			}
		}
	}
}

func TestWithoutBytesThereAreDefaults(t *testing.T) {
	req := kmsg.NewPtrFetchRequest()
	New(nil).Fill(req)
	if req.ReplicaID != -1 || len(req.Topics) != 0 || req.MaxBytes != 0x7fffffff {
		t.Errorf("drew %+v", req)
	}
}

func TestNumbersStayInTheirRange(t *testing.T) {
	for n := range 256 {
		s := New([]byte{byte(n), 0x80, 1, 2, 3, 4, 5, 6, 7})
		if v := s.Number(5, nil, 16); v < -1<<15 || v > 1<<15-1 {
			t.Errorf("byte %d: %d is no int16", n, v)
		}
	}
}
