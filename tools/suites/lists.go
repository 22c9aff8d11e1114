package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// expected is what a suite gave on the reference: outcomes by full name over all
// recorded runs. A test that passes at times is to pass here, in up to attemptsMax
// tries where it does not always.
type expected map[string][]string

// with adds a run. A test that was not seen before joins with what it gave.
func (e expected) with(found results) expected {
	out := expected{}
	maps.Copy(out, e)
	for name, outcome := range found {
		if !slices.Contains(out[name], outcome) {
			out[name] = append(slices.Clone(out[name]), outcome)
			slices.Sort(out[name])
		}
	}
	return out
}

// mayPass: one of the tests failed that is unsteady on the reference, so that
// another try is fair.
func (e expected) mayPass(found results) bool {
	for name, outcome := range found.own() {
		if outcome == failed && len(e[name]) > 1 && slices.Contains(e[name], passed) {
			return true
		}
	}
	return false
}

// write stores the list, sorted, one test a line: outcomes, then the name.
func (e expected) write(path string, s suite) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s on Apache Kafka 4.4. Written by: go run ./tools/suites --peer kafka --record\n", s.module, s.version)
	for _, name := range slices.Sorted(maps.Keys(e)) {
		fmt.Fprintf(&b, "%s %s\n", strings.Join(e[name], ","), name)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func readExpected(path string) (expected, error) {
	e := expected{}
	err := readLines(path, func(line string) error {
		outcomes, name, ok := strings.Cut(line, " ")
		if !ok {
			return fmt.Errorf("want OUTCOMES FOLDER TEST, not %q", line)
		}
		for o := range strings.SplitSeq(outcomes, ",") {
			if o != passed && o != failed && o != skipped {
				return fmt.Errorf("%q is no outcome", o)
			}
			e[name] = append(e[name], o)
		}
		return nil
	})
	return e, err
}

// reasons are the only ones for which a test may be excluded.
var reasons = []string{"transactions", "SASL", "ACLs", "KIP-848", "share groups"}

// exclusions are reasons by full name. An exclusion holds for the subtests too.
type exclusions map[string]string

func readExcluded(path string) (exclusions, error) {
	x := exclusions{}
	err := readLines(path, func(line string) error {
		for _, r := range reasons {
			if name, ok := strings.CutPrefix(line, r+": "); ok {
				x[name] = r
				return nil
			}
		}
		return fmt.Errorf("%q: want REASON: FOLDER TEST, with one of %s", line, strings.Join(reasons, ", "))
	})
	return x, err
}

// of is the exclusion that covers a test, "" for none.
func (x exclusions) of(name string) string {
	for n := name; ; n = n[:strings.LastIndexByte(n, '/')] {
		if x[n] != "" {
			return n
		}
		if !strings.Contains(testOf(n), "/") {
			return ""
		}
	}
}

// testOf is a full name without its folder, which may hold slashes itself.
func testOf(name string) string {
	_, test, _ := strings.Cut(name, " ")
	return test
}

// readLines calls f with each line that is neither empty nor a comment.
func readLines(path string, f func(string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if t := strings.TrimSpace(lines.Text()); t != "" && !strings.HasPrefix(t, "#") {
			if err := f(t); err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
	}
	return lines.Err()
}
