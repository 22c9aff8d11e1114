package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestListsAreWhole: a suite without its lists, or an exclusion of a test that the
// reference does not know, would fail only in a run.
func TestListsAreWhole(t *testing.T) {
	for _, s := range suiteTable {
		want, err := readExpected(filepath.Join("expected", s.name+".txt"))
		if err != nil || len(want) < 100 {
			t.Fatalf("%s: %d expected results, %v", s.name, len(want), err)
		}
		excluded, err := readExcluded(filepath.Join("excluded", s.name+".txt"))
		if err != nil || len(excluded) == 0 {
			t.Fatalf("%s: %d exclusions, %v", s.name, len(excluded), err)
		}
		doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "COMPATIBILITY.md"))
		if err != nil {
			t.Fatal(err)
		}
		for name, reason := range excluded {
			if row := fmt.Sprintf("| %s | %s | ", s.name, reason); !strings.Contains(string(doc), row) || !strings.Contains(string(doc), "`"+testOf(name)+"`") {
				t.Errorf("%s: %s (%s) is not in docs/COMPATIBILITY.md", s.name, name, reason)
			}
			if !slices.Contains(want[name], passed) {
				t.Errorf("%s: %s is excluded, but does not pass on the reference: %v", s.name, name, want[name])
			}
		}
		text, err := os.ReadFile(filepath.Join("expected", s.name+".txt"))
		if err != nil || !strings.Contains(string(text), s.module+" "+s.version+" ") {
			t.Errorf("%s: the expected results are not those of %s %s", s.name, s.module, s.version)
		}
	}
}

func TestJudge(t *testing.T) {
	want := expected{
		"d Good": {passed}, "d Bad": {passed}, "d Skipped": {passed}, "d Fails": {failed}, "d Skips": {skipped},
		"d Unsteady": {failed, passed}, "d Gone": {passed}, "d Better": {failed},
		"d Tree": {passed}, "d Tree/a": {passed}, "d Tree/b": {passed},
		"d Own": {passed}, "d Own/a": {passed},
		"d Out": {passed}, "d Out/a": {passed}, "d OutSub": {passed}, "d OutSub/a": {passed}, "d OutSub/b": {passed},
		"d Past": {passed}, "d Cut": {passed}, "d Cut/never": {passed},
	}
	excluded := exclusions{"d Out": "SASL", "d OutSub/a": "ACLs", "d Past": "SASL", "d NoSuch": "SASL"}
	found := results{
		"d Good": passed, "d Bad": failed, "d Skipped": skipped, "d Fails": failed, "d Skips": skipped,
		"d Unsteady": failed, "d Better": passed, "d New": passed,
		"d Tree": failed, "d Tree/a": passed, "d Tree/b": failed,
		"d Own": failed, "d Own/a": passed,
		"d Out": failed, "d Out/a": failed, "d OutSub": failed, "d OutSub/a": failed, "d OutSub/b": passed,
		"d Past": passed, "d Cut": failed,
	}
	v := judge(want, excluded, found, nil)
	for _, c := range []struct {
		what string
		got  []string
		want string
	}{
		{"worse", v.worse, "[d Bad: pass there, fail here d Cut: pass there, fail here d Own: pass there, fail here " +
			"d Skipped: pass there, skip here d Tree/b: pass there, fail here d Unsteady: fail,pass there, fail here]"},
		{"past exclusion", v.pastExclusion, "[d Past (SASL)]"},
		{"missing", v.missing, "[d NoSuch (excluded, but there is no such test) d Gone]"},
		{"unknown", v.unknown, "[d New pass]"},
		{"fail there", v.failThere, "[d Fails]"},
		{"skipped there", v.skippedThere, "[d Skips]"},
		{"better", v.better, "[d Better (fail there)]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if v.good() || v.passed != 5 || fmt.Sprint(v.excluded) != "map[ACLs:1 SASL:2]" { // Past is counted too
		t.Errorf("good %v, %d passed, excluded %v", v.good(), v.passed, v.excluded)
	}
	text := render([]*verdict{v}, "millrace")
	for _, want := range []string{"FAILED, passes on the reference: d Bad", "DID NOT RUN: d Gone", "PASSED although excluded: remove it from the list: d Past", "UNKNOWN on the reference: record it there: d New"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if only := judge(want, excluded, found, map[string]bool{"Good": true}); !only.good() {
		t.Errorf("of Good alone: %+v", only)
	}
	if nothing := judge(expected{}, nil, results{}, nil); nothing.good() {
		t.Error("a run of nothing is good")
	}
}

func TestExclusionsNeedAKnownReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list")
	for text, good := range map[string]bool{"# note\nSASL: d Test\n": true, "too slow: d Test\n": false, "d Test\n": false} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readExcluded(path); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestExpectedAddsUpOverRuns(t *testing.T) {
	e := expected{}.with(results{"d A": passed, "d B": failed}).with(results{"d A": failed, "d B": failed})
	path := filepath.Join(t.TempDir(), "list")
	if err := e.write(path, suiteTable[0]); err != nil {
		t.Fatal(err)
	}
	back, err := readExpected(path)
	if err != nil || fmt.Sprint(back) != "map[d A:[fail pass] d B:[fail]]" {
		t.Errorf("%v, %v", back, err)
	}
	if !e.mayPass(results{"d A": failed}) || e.mayPass(results{"d A": passed, "d B": failed}) {
		t.Error("only a failed test that is unsteady on the reference gets another try")
	}
}

// The suite below has what real ones have: a panic in the middle, subtests that
// run side by side, a hang, and an exit.
const hardSuite = `package hard
import ("os"; "testing"; "time")
func TestGood(t *testing.T) {}
func TestSkips(t *testing.T) { t.Skip() }
func TestPanics(t *testing.T) {
	t.Run("before", func(t *testing.T) {})
	t.Run("panics", func(t *testing.T) { panic("of its own") })
	t.Run("after all", func(t *testing.T) {})
	t.Run("fails", func(t *testing.T) { t.Error("no") })
}
func TestSideBySide(t *testing.T) {
	for _, n := range []string{"a", "b", "c"} {
		t.Run(n, func(t *testing.T) { t.Parallel(); time.Sleep(10*time.Millisecond); if n == "b" { panic(n) } })
	}
}
func TestHangs(t *testing.T) {
	t.Run("first", func(t *testing.T) {})
	t.Run("hangs", func(t *testing.T) { select {} })
}
func TestExits(t *testing.T) { os.Exit(0) }
`

func TestOnePanicHidesNothingElse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module hard\n\ngo 1.26\n", "hard_test.go": hardSuite} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "hard.test")
	if _, err := output(t.Context(), dir, "go", "test", "-c", "-o", binary, "."); err != nil {
		t.Fatal(err)
	}
	converter, err := output(t.Context(), "", "go", "tool", "-n", "test2json")
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{converter: strings.TrimSpace(converter)}
	p := builtPackage{folder: ".", dir: dir, binary: binary}
	for test, want := range map[string]string{
		"TestGood":       "map[TestGood:pass]",
		"TestSkips":      "map[TestSkips:skip]",
		"TestPanics":     "map[TestPanics:fail TestPanics/after_all:pass TestPanics/before:pass TestPanics/fails:fail TestPanics/panics:fail]",
		"TestSideBySide": "map[TestSideBySide:fail TestSideBySide/a:pass TestSideBySide/b:fail TestSideBySide/c:pass]",
		"TestHangs":      "map[TestHangs:fail TestHangs/first:pass TestHangs/hangs:fail]",
		"TestExits":      "map[TestExits:fail]",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		found, text, err := r.runTest(ctx, p, test, 2*time.Second)
		cancel()
		if err != nil || fmt.Sprint(found) != want {
			t.Errorf("%s: %v, %v, want %s\n%s", test, found, err, want, text)
		}
	}
}
