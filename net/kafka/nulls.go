package kafka

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// hasNullArray says whether a body has null, or a negative length, where an array
// must be: Kafka closes the connection then, and kmsg reads an empty array. The
// decoded request is written again and compared: an array that cannot be null
// comes out as an empty one. Behind the first byte that differs for another
// reason (a default value sent as a tagged field, a varint longer than need be)
// nothing is told.
func (w *Worker) hasNullArray(req kmsg.Request, body []byte) bool {
	w.scratch = req.AppendTo(slices.Grow(w.scratch[:0], len(body)))
	again := w.scratch
	if cap(w.scratch) > scratchBytesMax {
		w.scratch = nil
	}
	if bytes.HasPrefix(body, again) {
		return false
	}
	at := 0
	for at < len(body) && at < len(again) && body[at] == again[at] {
		at++
	}
	if at == len(body) || at == len(again) {
		return false
	}
	if req.IsFlexible() {
		return body[at] == 0 && again[at] == 1 // the length plus one
	}
	return len(again) >= at+4 && body[at] >= 0x80 && bytes.Equal(again[at:at+4], []byte{0, 0, 0, 0})
}

// scratchBytesMax is the largest Worker.scratch that is kept.
const scratchBytesMax = 1 << 20
