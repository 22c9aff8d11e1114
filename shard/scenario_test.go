package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"millrace/core"
)

// TestScenarios runs testdata/scenarios/*.txt against clusters of one or three
// nodes with one topic of one partition:
//
//	cluster nodes=N [fetchwaiters=N] [inflight=BYTES]
//	produce [node=N] [n=RECORDS] [pid=ID epoch=E seq=S]   to the leader by default
//	fetch [node=N] offset=O [min=BYTES] [wait=MS] [epoch=E] [lastepoch=E]
//	deleterecords offset=O
//	hold node=N | release node=N        the journal stops and goes on
//	crash node=N | restart node=N
//	cut node=N | heal node=N            with the failure detectors' news
//	mute node=N | unmute node=N         its messages are lost, and nobody is told
//	advance ms=MS
//	status
//
// Every request is named r1, r2, ...; each command prints what was answered.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := &scenario{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				w.open(t, d)
				return w.status()
			}
			w.c.t = t
			w.do(t, d)
			return w.answers(d.Cmd)
		})
	})
}

type scenario struct {
	c       *cluster
	id      core.PartitionID
	waiting []named
	count   int
}

type named struct {
	name string
	r    Request
	n    *testNode
}

func (w *scenario) open(t *testing.T, d *datadriven.TestData) {
	nodes, cut := 1, map[core.NodeID]bool{}
	d.MaybeScanArgs(t, "nodes", &nodes)
	w.c = newCluster(t, nodes)
	d.MaybeScanArgs(t, "fetchwaiters", &w.c.limits.FetchWaitersMax)
	d.MaybeScanArgs(t, "inflight", &w.c.limits.InflightBytesMax)
	w.c.drop = func(from, to core.NodeID) bool { return cut[from] || cut[to] }
	w.c.cut = cut
	w.c.start()
	w.id = w.c.topic("t", 1)[0]
	w.c.advance(3 * core.Second)
}

func (w *scenario) node(t *testing.T, d *datadriven.TestData) *testNode {
	n := 0
	if d.MaybeScanArgs(t, "node", &n); n > 0 {
		return w.c.nodes[n-1]
	}
	return w.c.leader(w.id)
}

func (w *scenario) ask(n *testNode, r Request) {
	w.count++
	w.waiting = append(w.waiting, named{fmt.Sprintf("r%d", w.count), r, n})
	n.ask(r)
}

func (w *scenario) do(t *testing.T, d *datadriven.TestData) {
	var n *testNode
	if d.Cmd != "advance" && d.Cmd != "status" {
		n = w.node(t, d)
	}
	switch d.Cmd {
	case "produce":
		records, pid, epoch, seq := 1, int64(-1), int64(-1), int64(-1)
		d.MaybeScanArgs(t, "n", &records)
		d.MaybeScanArgs(t, "pid", &pid)
		d.MaybeScanArgs(t, "epoch", &epoch)
		d.MaybeScanArgs(t, "seq", &seq)
		w.ask(n, n.produceTo(w.id, idempotent(batchOf(records, 100, 1000), pid, int16(epoch), int32(seq))))
	case "fetch":
		f := fetchFrom(w.id, 0)
		var wait, epoch, last int64 = 0, -1, -1
		d.ScanArgs(t, "offset", (*int64)(&f.Parts[0].Offset))
		d.MaybeScanArgs(t, "min", &f.MinBytes)
		d.MaybeScanArgs(t, "wait", &wait)
		d.MaybeScanArgs(t, "epoch", &epoch)
		d.MaybeScanArgs(t, "lastepoch", &last)
		f.Parts[0].CurrentEpoch, f.Parts[0].LastEpoch = int32(epoch), int32(last)
		f.Deadline = w.c.now + core.Tick(wait)*core.Millisecond
		w.ask(n, f)
	case "deleterecords":
		r := &DeleteRecords{Partition: w.id}
		d.ScanArgs(t, "offset", (*int64)(&r.Offset))
		w.ask(n, r)
	case "hold":
		n.hold = true
	case "release":
		n.release()
	case "crash":
		n.crash()
		w.c.run()
	case "restart":
		n.restart()
	case "mute", "unmute":
		w.c.cut[n.id] = d.Cmd == "mute"
	case "cut", "heal":
		w.c.cut[n.id] = d.Cmd == "cut"
		for _, m := range w.c.nodes {
			if m != n {
				m.send(Event{Kind: EventNode, From: n.id, Up: d.Cmd == "heal"})
				n.send(Event{Kind: EventNode, From: m.id, Up: d.Cmd == "heal"})
			}
		}
		w.c.run()
	case "advance":
		var ms int64
		d.ScanArgs(t, "ms", &ms)
		w.c.advance(core.Tick(ms) * core.Millisecond)
	case "status":
	default:
		t.Fatalf("command %q", d.Cmd)
	}
}

// answers prints what has been answered since the last command.
func (w *scenario) answers(cmd string) string {
	var out strings.Builder
	var kept []named
	for _, q := range w.waiting {
		if !q.n.answered(q.r) {
			if q.n.down {
				fmt.Fprintf(&out, "%s: never answered\n", q.name)
				continue
			}
			kept = append(kept, q)
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", q.name, answerOf(q.r))
	}
	w.waiting = kept
	if cmd == "status" {
		out.WriteString(w.status())
	}
	if out.Len() == 0 {
		return "ok"
	}
	return out.String()
}

func answerOf(r Request) string {
	if err := r.Base().Err; err != nil {
		return err.Error()
	}
	switch r := r.(type) {
	case *Produce:
		return fmt.Sprintf("offset %d, log start %d", r.BaseOffset, r.LogStart)
	case *DeleteRecords:
		return fmt.Sprintf("log start %d", r.LogStart)
	case *Fetch:
		defer r.dropData()
		part := &r.Parts[0]
		switch {
		case part.Err != nil:
			return part.Err.Error()
		case part.Diverging != nil:
			return fmt.Sprintf("diverging: epoch %d ends at %d", part.Diverging.Epoch, part.Diverging.End)
		}
		return fmt.Sprintf("batches at %v, high watermark %d, log start %d", offsetsOf(part), part.HighWatermark, part.LogStart)
	}
	return ""
}

func (w *scenario) status() string {
	var out strings.Builder
	for _, n := range w.c.nodes {
		p := n.shard.partitions[w.id]
		switch {
		case n.down:
			fmt.Fprintf(&out, "node %d: down\n", n.id)
		case p.leading:
			fmt.Fprintf(&out, "node %d: leads in term %d, serving %v, high watermark %d, log end %d\n", n.id, p.term, p.serving, p.high, p.log.NextOffset())
		default:
			fmt.Fprintf(&out, "node %d: follows %s in term %d, high watermark %d, log end %d\n", n.id, follows(p.leader), p.term, p.high, p.log.NextOffset())
		}
	}
	return out.String()
}

func follows(leader core.NodeID) string {
	if leader == core.NoNode {
		return "nobody"
	}
	return fmt.Sprint("node ", leader)
}
