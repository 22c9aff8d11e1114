package cli

import (
	"slices"
	"strings"
)

// nearest returns up to three of names that look like what, the best first.
func nearest(what string, names []string) []string {
	type scored struct {
		name string
		d    int
	}
	var found []scored
	limit := min(len(what)/3+1, len(what)-1)
	low := strings.ToLower(what)
	for _, n := range names {
		l := strings.ToLower(n)
		d := editDistance(low, l)
		if d > limit && (len(low) < 3 || !strings.Contains(l, low)) {
			continue
		}
		found = append(found, scored{n, d})
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		if a.d != b.d {
			return a.d - b.d
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// didYouMean asks for the nearest of names, or says otherwise where none is near.
func didYouMean(what string, names []string, otherwise string) string {
	if n := nearest(what, names); len(n) > 0 {
		return "Did you mean " + strings.Join(n, " or ") + "?"
	}
	return otherwise
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment).
func editDistance(a, b string) int {
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
