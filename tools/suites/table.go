package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// render prints one line per suite and reason, then what is wrong by name.
func render(verdicts []*verdict, peer string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nTests on %s against what they give on Apache Kafka 4.4\n", peer)
	fmt.Fprintf(&b, "%-10s %-9s %7s %7s %9s  %-22s %8s\n", "suite", "version", "passed", "failed", "excluded", "not passing there too", "seconds")
	for _, v := range verdicts {
		excluded := 0
		for _, n := range v.excluded {
			excluded += n
		}
		also := fmt.Sprintf("%d fail, %d skipped", len(v.failThere), len(v.skippedThere))
		fmt.Fprintf(&b, "%-10s %-9s %7d %7d %9d  %-22s %8.0f\n", v.suite.name, v.suite.version, v.passed,
			len(v.worse)+len(v.pastExclusion)+len(v.missing)+len(v.unknown), excluded, also, v.took.Seconds())
		for _, r := range slices.Sorted(maps.Keys(v.excluded)) {
			fmt.Fprintf(&b, "%-10s %-9s %7s %7s %9d  %s\n", "", "", "", "", v.excluded[r], r)
		}
	}
	for _, v := range verdicts {
		for _, part := range []struct {
			text  string
			names []string
		}{
			{"FAILED, passes on the reference", v.worse},
			{"PASSED although excluded: remove it from the list", v.pastExclusion},
			{"DID NOT RUN", v.missing},
			{"UNKNOWN on the reference: record it there", v.unknown},
			{"passes here only", v.better},
		} {
			for _, n := range part.names {
				fmt.Fprintf(&b, "%s: %s: %s\n", v.suite.name, part.text, n)
			}
		}
		if v.passed == 0 {
			fmt.Fprintf(&b, "%s: NOTHING PASSED\n", v.suite.name)
		}
	}
	b.WriteString("\n")
	return b.String()
}
