package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// versions is a range of versions that a broker advertises.
type versions struct{ min, max int16 }

// coverage counts what was sent and what came back.
type coverage struct {
	advertised map[int16]versions // immutable

	mu struct {
		sync.Mutex
		sent     map[[2]int16]int
		outcomes map[int16]map[string]int // by key
	}
}

func newCoverage(advertised map[int16]versions) *coverage {
	c := &coverage{advertised: advertised}
	c.mu.sent = make(map[[2]int16]int)
	c.mu.outcomes = make(map[int16]map[string]int)
	return c
}

// add counts a step whose frame says what it is and is whole.
func (c *coverage) add(st *Step) {
	if slices.ContainsFunc(st.Mutations, func(m Mutation) bool { return m.Kind >= versionIs || m.Kind == cutBody }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.sent[[2]int16{st.Req.Key(), st.Req.GetVersion()}]++
}

// outcome counts answers that no error is in, answers with one, and the rest.
func (c *coverage) outcome(st *Step, outs [2]outcome) {
	kind := outs[0].kind
	if kind == "answer" {
		kind = "without error"
		if outs[0].tree.hasError() {
			kind = "with error"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.mu.outcomes[st.Req.Key()]
	if m == nil {
		m = make(map[string]int)
		c.mu.outcomes[st.Req.Key()] = m
	}
	m[kind]++
}

func (n *node) hasError() bool {
	for _, p := range n.parts {
		if p.name == "ErrorCode" && p.node.leaf != "0" || p.node.hasError() {
			return true
		}
	}
	return false
}

// report describes the coverage and lists the advertised pairs that were never
// sent.
func (c *coverage) report() (text string, missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	keys := make([]int16, 0, len(c.advertised))
	for k := range c.advertised {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	pairs := 0
	for _, k := range keys {
		v := c.advertised[k]
		fmt.Fprintf(&b, "%-24s", kmsg.NameForKey(k))
		for n := v.min; n <= v.max; n++ {
			pairs++
			sent := c.mu.sent[[2]int16{k, n}]
			fmt.Fprintf(&b, " v%d:%d", n, sent)
			if sent == 0 {
				missing = append(missing, fmt.Sprintf("%s v%d", kmsg.NameForKey(k), n))
			}
		}
		kinds := make([]string, 0, 4)
		for kind := range c.mu.outcomes[k] {
			kinds = append(kinds, kind)
		}
		slices.Sort(kinds)
		b.WriteString(" |")
		for _, kind := range kinds {
			fmt.Fprintf(&b, " %s %d", kind, c.mu.outcomes[k][kind])
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d keys, %d pairs of key and version, %d of them sent\n", len(keys), pairs, pairs-len(missing))
	return b.String(), missing
}
