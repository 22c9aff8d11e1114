package main

import (
	"path"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// known is a difference that is meant. Each entry is narrow: it names the
// request, the field and what must hold.
type known struct {
	name     string
	keys     []kmsg.Key // nil: any
	min, max int16      // versions; max 0: any
	// field is a pattern (path.Match) of Difference.pattern, "" for any.
	field string
	when  func(c *knownCase) bool // nil: always
	// diverges is set where the brokers' states differ afterwards.
	diverges bool
	// quiet says of a step that states differ afterwards though the answers agree.
	quiet func(st *Step, millrace outcome) bool
	// because is a piece of docs/COMPATIBILITY.md that gives the reason.
	because string
}

// knownCase is what a condition may look at.
type knownCase struct {
	step *Step
	outs [2]outcome // kafka, millrace
	Difference
	all    []Difference
	before []Step // of the sequence
}

// knownList applies the entries and counts their use.
type knownList struct {
	entries []known // immutable

	mu struct {
		sync.Mutex
		used []int
	}
}

func newKnownList(entries []known) *knownList {
	l := &knownList{entries: entries}
	l.mu.used = make([]int, len(entries))
	return l
}

// filter returns the differences that no entry covers.
func (l *knownList) filter(st *Step, before []Step, outs [2]outcome, diffs []Difference) (unknown []Difference, diverged bool) {
	for _, d := range diffs {
		i := l.match(&knownCase{step: st, outs: outs, Difference: d, all: diffs, before: before})
		if i < 0 {
			unknown = append(unknown, d)
			continue
		}
		diverged = diverged || l.entries[i].diverges
		l.mu.Lock()
		l.mu.used[i]++
		l.mu.Unlock()
	}
	for i, k := range l.entries {
		if k.quiet == nil || diverged || !slices.Contains(k.keys, kmsg.Key(st.Req.Key())) || !k.quiet(st, outs[1]) {
			continue
		}
		diverged = true
		l.mu.Lock()
		l.mu.used[i]++
		l.mu.Unlock()
	}
	return unknown, diverged
}

func (l *knownList) match(c *knownCase) int {
	return slices.IndexFunc(l.entries, func(k known) bool {
		if k.keys != nil && !slices.Contains(k.keys, kmsg.Key(c.step.Req.Key())) {
			return false
		}
		if v := c.step.Req.GetVersion(); k.max > 0 && (v < k.min || v > k.max) {
			return false
		}
		if k.field != "" {
			if ok, err := path.Match(k.field, c.pattern()); err != nil || !ok {
				return false
			}
		}
		return k.when == nil || k.when(c)
	})
}

// uses lists the entries with how often each was used.
func (l *knownList) uses() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.used)
}
