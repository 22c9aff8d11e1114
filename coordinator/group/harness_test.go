package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/core"
	"millrace/core/budget"
	"millrace/core/meta"
)

var errInjected = errors.New("injected append failure")

// harness does for one Machine what a shard does: it appends what the Machine
// puts out, replays it at once, and gives replies out once.
type harness struct {
	t    testing.TB
	opts Options
	m    *Machine
	now  core.Tick
	term core.Term
	im   *meta.Image

	log   []core.Record // log[i] has offset start+i
	start core.Offset
	bytes int64
	fail  bool // the next Write that holds records fails

	waiting map[*core.Command]string // the tag of every command not yet answered
	onReply func(tag string, cmd *core.Command)
}

const harnessStart = 1_000_000 * core.Second

func newHarness(t testing.TB, cfg Config) *harness {
	h := &harness{t: t, now: harnessStart, im: &meta.Image{Version: 1}, waiting: make(map[*core.Command]string)}
	h.opts = Options{Seed: 7, Image: func() *meta.Image { return h.im }, Config: cfg}
	h.opts.Memory = budget.New(DefaultMemoryBytes, nil)
	h.failover()
	return h
}

// topic adds a topic; one of the same name is replaced, with another ID.
func (h *harness) topic(name string, partitions int) {
	t := &meta.Topic{Name: name}
	t.ID[0], t.ID[15] = byte(h.im.Version), byte(len(name))
	for i := range partitions {
		t.Partitions = append(t.Partitions, &meta.Partition{ID: core.PartitionID(h.im.Version*1000) + core.PartitionID(i), Num: int32(i)})
	}
	h.im = h.im.WithTopic(t)
	h.im.Version++
}

// failover throws the Machine away and makes another one lead, from the log.
func (h *harness) failover() {
	if h.m != nil {
		h.m.Reset() // gives its memory back
	}
	h.m = New(h.opts)
	h.term++
	// In several pieces, as batches.
	for i := 0; i < len(h.log); i += 3 {
		h.m.Replay(h.start+core.Offset(i), h.log[i:min(i+3, len(h.log))])
	}
	h.size()
	var out core.Output
	h.m.Lead(h.now, h.term, &out)
	h.carryOut(&out)
}

func (h *harness) size() {
	h.m.LogSize(h.start, h.start+core.Offset(len(h.log)), h.bytes)
}

func (h *harness) send(tag string, body any, client core.ClientInfo) *core.Command {
	cmd := &core.Command{Body: body, Client: client}
	h.waiting[cmd] = tag
	var out core.Output
	h.m.Handle(h.now, cmd, &out)
	h.carryOut(&out)
	h.advance(0)
	return cmd
}

func (h *harness) carryOut(out *core.Output) {
	for _, cmd := range out.Replies {
		h.answered(cmd)
	}
	for i := range out.Writes {
		w := &out.Writes[i]
		if h.fail && len(w.Records) > 0 {
			h.fail = false
			for _, cmd := range w.Replies {
				cmd.Reply, cmd.Err = nil, errInjected
				h.answered(cmd)
			}
			h.m.Failed(h.now, w.Cookie, errInjected)
			continue
		}
		if len(w.Records) > 0 {
			base := h.start + core.Offset(len(h.log))
			h.log = append(h.log, w.Records...)
			for _, r := range w.Records {
				h.bytes += recordBytes(r)
			}
			h.bytes += core.BatchHeaderBytes
			h.m.Replay(base, w.Records)
			h.size()
		}
		for _, cmd := range w.Replies {
			h.answered(cmd)
		}
	}
	if to := out.TrimBelow; to > 0 {
		if to > h.start+core.Offset(len(h.log)) || to < h.start {
			h.t.Fatalf("TrimBelow %d outside the log [%d, %d)", to, h.start, h.start+core.Offset(len(h.log)))
		}
		h.log = slices.Clone(h.log[to-h.start:])
		h.start, h.bytes = to, 0
		for _, r := range h.log {
			h.bytes += recordBytes(r)
		}
		h.size()
	}
}

func (h *harness) answered(cmd *core.Command) {
	tag, ok := h.waiting[cmd]
	if !ok {
		h.t.Fatalf("a %T was answered twice, or was never sent", cmd.Body)
	}
	if cmd.Reply == nil && cmd.Err == nil {
		h.t.Fatalf("%s: a %T was listed without an answer", tag, cmd.Body)
	}
	delete(h.waiting, cmd)
	if h.onReply != nil {
		h.onReply(tag, cmd)
	}
}

// advance lets time pass; timers fire at their times.
func (h *harness) advance(d core.Tick) {
	end := h.now + d
	for rounds := 0; ; rounds++ {
		next := h.m.Deadline()
		if next == 0 || next > end {
			break
		}
		if rounds > 100_000 {
			h.t.Fatal("the Machine wants its timer for ever")
		}
		h.now = max(h.now, next)
		var out core.Output
		h.m.Timer(h.now, &out)
		h.carryOut(&out)
	}
	h.now = end
}

// dump describes the replicated state of a Machine.
func dump(m *Machine) string {
	var b strings.Builder
	for _, id := range m.savedIDs() {
		s := m.saved[id]
		if v := s.metadata; v != nil {
			proto := ""
			if v.Protocol != nil {
				proto = *v.Protocol
			}
			fmt.Fprintf(&b, "group %s type=%s gen=%d proto=%s\n", id, v.ProtocolType, v.Generation, proto)
			for _, vm := range v.Members {
				fmt.Fprintf(&b, "  member %s instance=%s session=%d rebalance=%d assignment=%s\n", vm.MemberID, text(vm.InstanceID), vm.SessionTimeoutMillis, vm.RebalanceTimeoutMillis, vm.Assignment)
			}
		}
		for _, at := range s.sortedOffsets() {
			c := s.offsets[at]
			fmt.Fprintf(&b, "offset %s %s/%d: %d epoch=%d %q\n", id, at.topic, at.partition, c.offset, c.leaderEpoch, short(c.metadata))
		}
	}
	return b.String()
}

// short cuts long text.
func short(s string) string {
	if len(s) > 20 {
		return fmt.Sprintf("%d bytes", len(s))
	}
	return s
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func errName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	return kerr.TypedErrorForCode(code).Message
}
