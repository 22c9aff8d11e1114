package shard

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"millrace/core"
)

// TestProducerState runs testdata/producers/*.txt: a reader learns the rules of
// idempotent producers from the scenarios.
//
//	append  pid=1 epoch=0 seq=0 n=10   check, and append if it is new
//	commit                             the oldest appended batch is committed
//	lose                               the leadership is lost
//	expire  at=MS idle=MS
//	restart                            encode, decode
//	state
func TestProducerState(t *testing.T) {
	datadriven.Walk(t, "testdata/producers", func(t *testing.T, path string) {
		w := &producerWorld{limit: 3}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return w.run(t, d)
		})
	})
}

type producerWorld struct {
	ps    producers
	limit int
	next  core.Offset
	nowMs int64
	tail  []pendingSeq
}

type pendingSeq struct {
	id int64
	s  sequence
}

func (w *producerWorld) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "append":
		var id, epoch, seq, n int64
		n = 1
		d.ScanArgs(t, "pid", &id)
		d.ScanArgs(t, "epoch", &epoch)
		d.ScanArgs(t, "seq", &seq)
		d.MaybeScanArgs(t, "n", &n)
		s := sequence{first: int32(seq), last: sequenceAt(int32(seq), int32(n-1)), epoch: int16(epoch), base: w.next, lastOffset: w.next + core.Offset(n-1)}
		v, err := w.ps.check(id, s)
		switch {
		case errors.Is(err, core.ErrFencedProducer):
			return "fenced: " + err.Error()
		case errors.Is(err, core.ErrOutOfOrderSeq):
			return "out of order: " + err.Error()
		case err != nil:
			return err.Error()
		case v.duplicate:
			return fmt.Sprintf("duplicate of offset %d, pending %v", v.of.base, v.pending)
		}
		w.nowMs++
		w.ps.appended(id, s, w.nowMs, w.limit)
		w.tail = append(w.tail, pendingSeq{id, s})
		w.next += core.Offset(n)
		return fmt.Sprintf("offset %d", s.base)
	case "commit":
		p := w.tail[0]
		w.tail = w.tail[1:]
		w.ps.committed(p.id, p.s, w.nowMs, w.limit)
		return fmt.Sprintf("offset %d", p.s.base)
	case "lose":
		w.ps.dropInflight()
		w.tail = nil
	case "expire":
		var at, idle int64
		d.ScanArgs(t, "at", &at)
		d.ScanArgs(t, "idle", &idle)
		w.ps.expire(at, idle)
	case "restart":
		state := w.ps.encode()
		w.ps, w.tail = producers{}, nil
		if err := w.ps.decode(state, w.limit); err != nil {
			return err.Error()
		}
	case "state":
	default:
		t.Fatalf("command %q", d.Cmd)
	}
	return w.state()
}

func (w *producerWorld) state() string {
	var out strings.Builder
	for p := w.ps.oldest; p != nil; p = p.newer {
		fmt.Fprintf(&out, "producer %d epoch %d:", p.id, p.epoch)
		for _, s := range p.batches[:p.n] {
			fmt.Fprintf(&out, " [%d,%d]@%d", s.first, s.last, s.base)
		}
		for _, s := range p.inflight {
			fmt.Fprintf(&out, " inflight(epoch %d)[%d,%d]@%d", s.epoch, s.first, s.last, s.base)
		}
		out.WriteByte('\n')
	}
	if out.Len() == 0 {
		return "none"
	}
	return out.String()
}

func TestSequenceWraps(t *testing.T) {
	for _, c := range []struct{ first, delta, want int32 }{
		{0, 0, 0}, {5, 9, 14}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 2, 5, 2},
	} {
		if got := sequenceAt(c.first, c.delta); got != c.want {
			t.Errorf("sequenceAt(%d, %d) = %d, want %d", c.first, c.delta, got, c.want)
		}
	}
}
