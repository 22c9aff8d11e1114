package meta

import (
	"slices"
	"strings"
)

// Diff calls fn for every topic that differs between two Images, in order of
// names: (nil, after) for a new topic, (before, nil) for a deleted one, both for
// one whose partitions or configs changed. A topic that was deleted and made
// again is reported as deleted and then as new. old may be nil: everything is
// new then. Buckets that both Images share are skipped, so the cost goes with
// what has changed.
func Diff(old, new *Image, fn func(before, after *Topic)) {
	type pair struct{ before, after *Topic }
	var changed []pair
	if old == nil {
		old = &Image{}
	}
	if old.topics.byName == new.topics.byName {
		return
	}
	for i := range topicBuckets {
		was, is := old.topics.byName.bucket(i), new.topics.byName.bucket(i)
		if was == is {
			continue
		}
		for name, before := range was.entries() {
			if after := is.entries()[name]; after != before {
				changed = append(changed, pair{before, after})
			}
		}
		for name, after := range is.entries() {
			if _, ok := was.entries()[name]; !ok {
				changed = append(changed, pair{nil, after})
			}
		}
	}
	name := func(p pair) string {
		if p.before != nil {
			return p.before.Name
		}
		return p.after.Name
	}
	slices.SortFunc(changed, func(a, b pair) int { return strings.Compare(name(a), name(b)) })
	for _, p := range changed {
		if p.before != nil && p.after != nil && p.before.ID != p.after.ID {
			fn(p.before, nil)
			fn(nil, p.after)
			continue
		}
		fn(p.before, p.after)
	}
}

func (b *bucket[K, V]) entries() map[K]V {
	if b == nil {
		return nil
	}
	return b.m
}
