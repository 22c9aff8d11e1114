package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// verdict is the comparison of one suite's run with what is expected.
type verdict struct {
	suite suite
	took  time.Duration

	passed   int
	excluded map[string]int // tests by reason
	// Tests that never pass there nor here, and that are skipped on both.
	failThere, skippedThere []string
	// Not failures, but worth a line: they fail or are skipped there and pass here.
	better []string

	// Failures: they pass there, at least at times, and not here; are excluded and
	// pass; are expected and did not run; ran and are unknown.
	worse, pastExclusion, missing, unknown []string
}

func (v *verdict) good() bool {
	return len(v.worse)+len(v.pastExclusion)+len(v.missing)+len(v.unknown) == 0 && v.passed > 0
}

// judge compares tests without subtests, one by one; one with subtests counts
// only where it fails and none of them does. chosen limits it to some top-level
// tests; nil: all.
func judge(want expected, excluded exclusions, found results, chosen map[string]bool) *verdict {
	v := &verdict{excluded: map[string]int{}}
	judged := func(name string) bool {
		top, _, _ := strings.Cut(testOf(name), "/")
		return chosen == nil || chosen[top]
	}
	own := found.own()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if !judged(name) {
			continue
		}
		if x := excluded.of(name); x != "" {
			v.excluded[excluded[x]]++
			continue
		}
		v.compare(name, want[name], own[name])
	}
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		if judged(name) && found[name] == passed {
			v.pastExclusion = append(v.pastExclusion, fmt.Sprintf("%s (%s)", name, excluded[name]))
		} else if judged(name) && found[name] == "" {
			v.missing = append(v.missing, name+" (excluded, but there is no such test)")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		// A subtest that its failed, skipped or excluded parent did not come to is
		// told by the parent.
		if judged(name) && found[name] == "" && excluded.of(name) == "" && !found.cutShort(name) {
			v.missing = append(v.missing, name)
		}
	}
	return v
}

func (v *verdict) compare(name string, there []string, here string) {
	mayBe := func(outcome string) bool { return slices.Contains(there, outcome) }
	switch {
	case len(there) == 0:
		v.unknown = append(v.unknown, name+" "+here)
	case here == passed:
		v.passed++
		if !mayBe(passed) {
			v.better = append(v.better, fmt.Sprintf("%s (%s there)", name, strings.Join(there, ",")))
		}
	case !mayBe(here) || mayBe(passed):
		v.worse = append(v.worse, fmt.Sprintf("%s: %s there, %s here", name, strings.Join(there, ","), here))
	case here == skipped:
		v.skippedThere = append(v.skippedThere, name)
	default:
		v.failThere = append(v.failThere, name)
	}
}

// own leaves out the tests whose outcome is only that of their subtests.
func (r results) own() results {
	parents := map[string]bool{}     // of any test
	failedBelow := map[string]bool{} // parents of a failed test
	for name, outcome := range r {
		for p := parent(name); p != ""; p = parent(p) {
			parents[p] = true
			failedBelow[p] = failedBelow[p] || outcome == failed
		}
	}
	out := results{}
	for name, outcome := range r {
		if !parents[name] || outcome == failed && !failedBelow[name] {
			out[name] = outcome
		}
	}
	return out
}

// cutShort: a parent of the test failed or was skipped, so that it may not have
// come to run.
func (r results) cutShort(name string) bool {
	for p := parent(name); p != ""; p = parent(p) {
		if o := r[p]; o == failed || o == skipped {
			return true
		}
	}
	return false
}

// parent is the full name of the test that a subtest belongs to, "" for a
// top-level test. A slash in a subtest's own name makes parents that are not in
// the results; they do no harm.
func parent(name string) string {
	test := testOf(name)
	i := strings.LastIndexByte(test, '/')
	if i < 0 {
		return ""
	}
	return name[:len(name)-len(test)+i]
}
