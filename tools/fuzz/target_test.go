package main

import (
	"strings"
	"testing"
)

func TestATimeThatIsOverIsNoFailure(t *testing.T) {
	const over = `fuzz: elapsed: 0s, gathering baseline coverage: 205/205 completed, now fuzzing with 2 workers
--- FAIL: FuzzParseFile (6.01s)
    context deadline exceeded
FAIL
exit status 1
FAIL	millrace/core/config	6.025s`
	for _, tc := range []struct {
		name, said string
		want       bool
	}{
		{"the time is over", over, true},
		{"another target's time is over", strings.Replace(over, "FuzzParseFile", "FuzzValues", 1), false},
		{"nothing", "", false},
		{"cut off", "--- FAIL: FuzzParseFile (6.01s)\n    context deadline exceeded", false},
		{"a package that does not build", "FAIL	millrace/core/config [build failed]\nFAIL", false},
		{"a failing input", `--- FAIL: FuzzParseFile (0.32s)
    --- FAIL: FuzzParseFile (0.00s)
        fuzz_test.go:20: context deadline exceeded

    Failing input written to testdata/fuzz/FuzzParseFile/771e938e4458e983
    To re-run:
    go test -run=FuzzParseFile/771e938e4458e983
FAIL
exit status 1`, false},
		{"a failing input beside the deadline", strings.Replace(over, "exit status", "    Failing input written to testdata/fuzz/FuzzParseFile/77\nexit status", 1), false},
		{"a worker that hangs", `--- FAIL: FuzzParseFile (10.31s)
    fuzzing process hung or terminated unexpectedly: exit status 2
    Failing input written to testdata/fuzz/FuzzParseFile/771e938e4458e983
FAIL`, false},
		{"a committed input that fails", `--- FAIL: FuzzParseFile (0.03s)
    failure while testing seed corpus entry: FuzzParseFile/seed#0
    context deadline exceeded
FAIL`, false},
	} {
		target := &target{fn: "FuzzParseFile"}
		if got := target.onlyEnded(strings.Split(tc.said, "\n")); got != tc.want {
			t.Errorf("%s: taken for the end of the time is %t", tc.name, got)
		}
	}
}
