package check

import (
	"slices"
	"strings"
	"testing"
)

var p0 = Part{"t@1", 0}

func span(a, b int64) Span { return Span{a, b} }

// send is a batch of n records from first on; sums are the sequence numbers.
func send(at Span, producer int32, first int64, n int, out Outcome, base int64) *Send {
	s := &Send{Span: at, Part: p0, Producer: producer, First: first, Attempts: 1, Idempotent: true, Durable: true, Outcome: out, Base: base}
	for i := range n {
		s.Sums = append(s.Sums, uint64(first)+uint64(i))
	}
	return s
}

func rec(offset int64, producer int32, seq int64) Record {
	return Record{Offset: offset, Key: Key{producer, seq}, Sum: uint64(seq)}
}

func poll(at Span, reader string, from, start, end int64, recs ...Record) *Poll {
	return &Poll{Span: at, Reader: reader, Part: p0, From: from, LogStart: start, End: end, Records: recs}
}

// good is a history in which nothing is wrong: five records by two producers,
// one with an unknown outcome that happened, one refused.
func good() *History {
	return &History{
		Sends: []*Send{
			send(span(1, 2), 1, 0, 2, Acked, 0),
			send(span(3, 5), 2, 0, 1, Acked, 2),
			send(span(4, Never), 1, 2, 2, Unknown, -1),
			send(span(6, 7), 2, 1, 1, Failed, -1),
		},
		Polls: []*Poll{
			poll(span(5, 6), "c", 0, 0, 3, rec(0, 1, 0), rec(1, 1, 1), rec(2, 2, 0)),
			poll(span(8, 9), "c", 3, 0, 5, rec(3, 1, 2), rec(4, 1, 3)),
			poll(span(20, 21), "final", 0, 0, 5, rec(0, 1, 0), rec(1, 1, 1), rec(2, 2, 0)),
			poll(span(22, 23), "final", 3, 0, 5, rec(3, 1, 2), rec(4, 1, 3)),
		},
		Finals: []Final{{p0, "final", 0, 5}},
	}
}

func kinds(vs []Violation) []string {
	var out []string
	for _, v := range vs {
		if !slices.Contains(out, v.Kind) {
			out = append(out, v.Kind)
		}
	}
	slices.Sort(out)
	return out
}

func expect(t *testing.T, h *History, want ...string) {
	t.Helper()
	vs := All(h)
	slices.Sort(want)
	if got := kinds(vs); !slices.Equal(got, want) {
		t.Errorf("violations %v, want %v:\n%v", got, want, vs)
	}
}

func TestLogCheckerNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name string
		bend func(h *History)
		want string // kinds, separated by blanks
	}{
		{"nothing", func(h *History) {}, ""},
		{"acknowledged record gone from the end", func(h *History) {
			h.Sends = append(h.Sends, send(span(10, 11), 1, 4, 1, Acked, 5))
		}, KindUnseen},
		{"acknowledged record gone, offset taken by another", func(h *History) {
			h.Sends = append(h.Sends, send(span(10, 11), 1, 4, 1, Acked, 4))
		}, KindInconsistent + " " + KindLost + " " + KindReorder},
		{"acknowledged without an offset and gone", func(h *History) {
			h.Sends = append(h.Sends, send(span(10, 11), 1, 4, 1, Acked, -1))
		}, KindLost},
		{"acks=1 may be lost", func(h *History) {
			s := send(span(10, 11), 1, 4, 1, Acked, 5)
			s.Durable = false
			h.Sends = append(h.Sends, s)
		}, ""},
		{"a record that was read is gone", func(h *History) {
			h.Polls[1].Records = append(h.Polls[1].Records, rec(5, 1, 4))
			h.Polls[1].End, h.Polls[2].End, h.Polls[3].End = 5, 5, 5
			h.Polls[1].End = 6
			h.Sends = append(h.Sends, send(span(7, Never), 1, 4, 1, Unknown, -1))
		}, KindLost + " " + KindNonmonotonic},
		{"a record nobody sent", func(h *History) {
			h.Polls[0].Records[1].Key = Key{9, 9}
		}, KindInvented + " " + KindInconsistent},
		{"a refused record", func(h *History) {
			h.Polls[3].Records = append(h.Polls[3].Records, rec(5, 2, 1))
			h.Polls[3].End, h.Finals[0].End = 6, 6
		}, KindInvented},
		{"read before it was sent", func(h *History) { h.Sends[2].Invoke = 30 }, KindInvented},
		{"other bytes", func(h *History) {
			for _, p := range h.Polls {
				for i := range p.Records {
					if p.Records[i].Offset == 1 {
						p.Records[i].Sum = 77
					}
				}
			}
		}, KindCorrupt},
		{"two copies of an idempotent record", func(h *History) {
			h.Polls[3].Records = append(h.Polls[3].Records, rec(5, 1, 2), rec(6, 1, 3))
			h.Polls[3].End, h.Finals[0].End = 7, 7
		}, KindDuplicate},
		{"two copies after two attempts without idempotence", func(h *History) {
			h.Sends[2].Idempotent, h.Sends[2].Attempts = false, 2
			h.Polls[3].Records = append(h.Polls[3].Records, rec(5, 1, 2), rec(6, 1, 3))
			h.Polls[3].End, h.Finals[0].End = 7, 7
		}, ""},
		{"two copies of a batch, the first cut by a deletion", func(h *History) {
			h.Sends[2].Idempotent, h.Sends[2].Attempts = false, 2
			h.Polls = h.Polls[3:]
			h.Polls[0].From, h.Polls[0].LogStart, h.Polls[0].End = 4, 4, 7
			h.Polls[0].Records = []Record{rec(4, 1, 3), rec(5, 1, 2), rec(6, 1, 3)}
			h.Finals[0].Start, h.Finals[0].End = 4, 7
		}, ""},
		{"a batch torn apart", func(h *History) {
			h.Sends[2].Idempotent, h.Sends[2].Attempts = false, 2
			h.Polls[1].Records = []Record{rec(3, 1, 2), rec(4, 1, 2), rec(5, 1, 3), rec(6, 1, 3)}
			h.Polls[3].Records = h.Polls[1].Records
			h.Polls[1].End, h.Polls[2].End, h.Polls[3].End, h.Finals[0].End = 7, 7, 7, 7
		}, KindReorder},
		{"one offset, two records", func(h *History) {
			h.Polls[2].Records[0], h.Polls[2].Records[1] = rec(0, 1, 1), rec(1, 1, 0)
		}, KindInconsistent},
		{"one offset acknowledged twice", func(h *History) { h.Sends[1].Base = 1 },
			KindInconsistent},
		{"order of an idempotent producer", func(h *History) {
			for _, p := range h.Polls {
				for i := range p.Records {
					switch p.Records[i].Offset {
					case 3:
						p.Records[i] = rec(3, 1, 3)
					case 4:
						p.Records[i] = rec(4, 1, 2)
					}
				}
			}
		}, KindReorder},
		{"sent after an acknowledgement, placed before it", func(h *History) {
			h.Sends[0].Invoke, h.Sends[0].Return = 8, 9
			h.Sends[1].Invoke, h.Sends[1].Return = 1, 2
			h.Sends[2].Invoke = 9
			h.Polls[0].Return, h.Polls[1].Invoke, h.Polls[1].Return = 10, 11, 12
		}, KindReorder},
		{"a hole within a read", func(h *History) {
			h.Polls[0].Records = slices.Delete(h.Polls[0].Records, 1, 2)
		}, KindHole},
		{"a hole before a read", func(h *History) { h.Polls[1].From = 2 }, KindHole},
		{"a short final read", func(h *History) { h.Polls = h.Polls[:3] }, KindHole + " " + KindLost},
		{"read beyond the end", func(h *History) { h.Polls[0].End = 2 }, KindBeyondEnd},
		{"the end goes back", func(h *History) { h.Polls[0].End = 6 }, KindNonmonotonic},
		{"the end goes back between reads that overlap", func(h *History) {
			h.Polls[0].End, h.Polls[0].Return = 5, 9
			h.Polls[1].Invoke, h.Polls[1].End, h.Polls[1].Records = 6, 3, nil
		}, ""},
		{"the log start goes back", func(h *History) { h.Polls[0].LogStart = 1 }, KindNonmonotonic},
		{"the log start told by a deletion goes back", func(h *History) {
			h.Polls = append(h.Polls, &Poll{Span: span(10, 11), Reader: "admin", Part: p0, From: -1, LogStart: 3, End: -1})
		}, KindNonmonotonic},
		{"a log start above the high watermark", func(h *History) {
			h.Polls = append(h.Polls, &Poll{Span: span(30, 31), Reader: "admin", Part: p0, From: -1, LogStart: 6, End: 5})
		}, KindBounds},
		{"a high watermark above the log end", func(h *History) {
			h.Polls = append(h.Polls, &Poll{Span: span(30, 31), Reader: "admin", Part: p0, From: -1, LogStart: 0, End: 6, LogEnd: 5})
		}, KindBounds},
		{"an end below what was acknowledged, told by the one node", func(h *History) {
			h.OneNode = true
			h.Polls[0].End, h.Polls[0].Invoke, h.Polls[0].Records = 2, 6, h.Polls[0].Records[:2]
			h.Polls[0].Return = 7
		}, KindStaleEnd},
		{"an end below what was acknowledged, told by one of several nodes", func(h *History) {
			h.Polls[0].End, h.Polls[0].Invoke, h.Polls[0].Records = 2, 6, h.Polls[0].Records[:2]
			h.Polls[0].Return = 7
		}, ""},
		{"deleted below the log start", func(h *History) {
			h.Polls[2].LogStart, h.Polls[3].LogStart = 3, 3
			h.Polls = slices.Delete(h.Polls, 2, 3)
			h.Finals[0].Start = 3
		}, ""},
		{"damage without a cause", func(h *History) {
			h.Damaged = []Damaged{{9, p0, "checksum"}}
		}, KindFalseDamage},
		{"damage reported, the rest gone", func(h *History) {
			h.Flips, h.Damaged = []Flip{{9, p0, "journal"}}, []Damaged{{10, p0, "checksum"}}
			h.Polls, h.Finals = h.Polls[:2], nil
		}, ""},
		{"damage passed over", func(h *History) {
			h.Flips = []Flip{{9, p0, "journal"}}
			h.Polls, h.Finals[0].End = h.Polls[:3], 3
		}, KindLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := good()
			tt.bend(h)
			expect(t, h, strings.Fields(tt.want)...)
		})
	}
}

func commit(at Span, offset int64, out Outcome) *Commit {
	return &Commit{Span: at, Group: "g", Member: "m", Generation: 1, Part: p0, Offset: offset, Outcome: out}
}

func fetch(at Span, offset int64) OffsetFetch {
	return OffsetFetch{Span: at, Group: "g", Part: p0, Offset: offset}
}

func TestGroupCheckerNamesWhatIsWrong(t *testing.T) {
	own := func(member string, generation int32) Ownership {
		return Ownership{At: 1, Group: "g", Member: member, Generation: generation, Parts: []Part{p0}}
	}
	tests := []struct {
		name string
		h    History
		want string
	}{
		{"a commit and its fetch", History{
			Commits: []*Commit{commit(span(1, 2), 5, Acked)},
			Fetches: []OffsetFetch{fetch(span(0, 0), -1), fetch(span(3, 4), 5)}}, ""},
		{"an acknowledged commit is gone", History{
			Commits: []*Commit{commit(span(1, 2), 5, Acked)},
			Fetches: []OffsetFetch{fetch(span(3, 4), -1)}}, KindOffsetLost},
		{"an older commit after a newer one was acknowledged", History{
			Commits: []*Commit{commit(span(1, 2), 5, Acked), commit(span(3, 4), 7, Acked)},
			Fetches: []OffsetFetch{fetch(span(5, 6), 5)}}, KindOffsetLost},
		{"an unanswered commit may or may not be there", History{
			Commits: []*Commit{commit(span(1, 2), 5, Acked), commit(span(3, Never), 7, Unknown)},
			Fetches: []OffsetFetch{fetch(span(5, 6), 5), fetch(span(7, 8), 7)}}, ""},
		{"an unanswered commit seen once is gone", History{
			Commits: []*Commit{commit(span(1, 2), 5, Acked), commit(span(3, Never), 7, Unknown)},
			Fetches: []OffsetFetch{fetch(span(5, 6), 7), fetch(span(7, 8), 5)}}, KindOffsetBack},
		{"a refused commit is there", History{
			Commits: []*Commit{commit(span(1, 2), 5, Failed)},
			Fetches: []OffsetFetch{fetch(span(5, 6), 5)}}, KindOffsetForged},
		{"two owners in one generation", History{
			Owners: []Ownership{own("a", 3), own("b", 3)}}, KindTwoOwners},
		{"two owners in two generations", History{
			Owners: []Ownership{own("a", 3), own("b", 4), own("b", 4)}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, &tt.h, strings.Fields(tt.want)...) })
	}
}

func TestCatalogueCheckerNamesWhatIsWrong(t *testing.T) {
	op := func(at Span, kind TopicOpKind, id string, out Outcome) *TopicOp {
		return &TopicOp{Span: at, Kind: kind, Name: "a", ID: id, Partitions: 2, Outcome: out}
	}
	config := func(at Span, value string, out Outcome) *TopicOp {
		o := op(at, TopicConfig, "1", out)
		o.ConfigKey, o.ConfigValue = "retention.ms", value
		return o
	}
	view := func(at Span, id string, parts int32, configs map[string]string) TopicList {
		v := TopicList{Span: at, Topics: map[string]TopicState{}}
		if id != "" {
			v.Topics["a"] = TopicState{ID: id, Partitions: parts, Configs: configs}
		}
		return v
	}
	created := op(span(1, 2), TopicCreate, "1", Acked)
	withConfigs := op(span(1, 2), TopicCreate, "1", Acked)
	withConfigs.Configs = map[string]string{"retention.ms": "9"}
	tests := []struct {
		name string
		ops  []*TopicOp
		seen []TopicList
		want string
	}{
		{"made and there", []*TopicOp{created}, []TopicList{view(span(0, 0), "", 0, nil), view(span(3, 4), "1", 2, nil)}, ""},
		{"made and gone", []*TopicOp{created}, []TopicList{view(span(3, 4), "", 0, nil)}, KindTopicLost},
		{"made by an unanswered request", []*TopicOp{op(span(1, Never), TopicCreate, "", Unknown)},
			[]TopicList{view(span(3, 4), "", 0, nil), view(span(5, 6), "9", 2, nil)}, ""},
		{"made by nobody", nil, []TopicList{view(span(3, 4), "9", 2, nil)}, KindTopicInvented},
		{"refused and there", []*TopicOp{op(span(1, 2), TopicCreate, "", Failed)},
			[]TopicList{view(span(3, 4), "9", 2, nil)}, KindTopicInvented},
		{"deleted and there", []*TopicOp{created, op(span(3, 4), TopicDelete, "1", Acked)},
			[]TopicList{view(span(5, 6), "1", 2, nil)}, KindTopicBack},
		{"deleted by an unanswered request", []*TopicOp{created, op(span(3, Never), TopicDelete, "1", Unknown)},
			[]TopicList{view(span(5, 6), "1", 2, nil), view(span(7, 8), "", 0, nil)}, ""},
		{"deleted by an unanswered request and back", []*TopicOp{created, op(span(3, Never), TopicDelete, "1", Unknown)},
			[]TopicList{view(span(4, 5), "1", 2, nil), view(span(6, 6), "", 0, nil), view(span(7, 8), "1", 2, nil)}, KindTopicBack},
		{"deleted and made again", []*TopicOp{created, op(span(3, 4), TopicDelete, "1", Acked), op(span(5, 6), TopicCreate, "2", Acked)},
			[]TopicList{view(span(7, 8), "2", 2, nil)}, ""},
		{"fewer partitions than acknowledged", []*TopicOp{created}, []TopicList{view(span(3, 4), "1", 1, nil)}, KindTopicShrunk},
		{"fewer partitions than seen", []*TopicOp{created}, []TopicList{view(span(3, 4), "1", 3, nil), view(span(5, 6), "1", 2, nil)}, KindTopicShrunk},
		{"setting kept", []*TopicOp{created, config(span(3, 4), "5", Acked)},
			[]TopicList{view(span(5, 6), "1", 2, map[string]string{"retention.ms": "5"})}, ""},
		{"setting of the creation lost", []*TopicOp{withConfigs},
			[]TopicList{view(span(5, 6), "1", 2, map[string]string{})}, KindConfigLost},
		{"setting of the creation removed", []*TopicOp{withConfigs, config(span(3, 4), "", Acked)},
			[]TopicList{view(span(5, 6), "1", 2, map[string]string{})}, ""},
		{"setting lost", []*TopicOp{created, config(span(3, 4), "5", Acked)},
			[]TopicList{view(span(5, 6), "1", 2, map[string]string{})}, KindConfigLost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, &History{TopicOps: tt.ops, TopicSeen: tt.seen}, strings.Fields(tt.want)...)
		})
	}
}

func TestListingIsBounded(t *testing.T) {
	h := good()
	for i := range int64(1000) {
		h.Sends = append(h.Sends, send(span(10, 11), 5, i, 1, Acked, 100+i))
	}
	if vs := All(h); len(vs) != perKindMax {
		t.Errorf("%d violations listed, want %d", len(vs), perKindMax)
	}
}
