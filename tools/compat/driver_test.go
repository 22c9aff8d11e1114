package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// scripted is a driver that answers each command by a line of a shell script.
func scripted(t *testing.T, script string) *driver {
	t.Helper()
	c := client{name: "sh", command: func(*installer) []string { return []string{"sh", "-c", script, "sh"} }}
	d, err := startDriver(c, newInstaller(t.TempDir()), "nowhere:1", filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	return d
}

func TestDriverAnswers(t *testing.T) {
	d := scripted(t, `read a; echo noise; echo "ok count=3 low=40"; read a; echo "error 36 exists"; read a; echo "error - lost"; read a; echo "error x"; exit 1`)
	answer, err := d.do(t.Context(), "partitions topic=t")
	if err != nil || answer["count"] != "3" || answer["low"] != "40" {
		t.Errorf("%v, %v", answer, err)
	}
	for _, want := range []int{topicAlreadyExists, noCode} {
		var r *refusal
		if _, err := d.do(t.Context(), "create topic=t"); !errors.As(err, &r) || r.code != want {
			t.Errorf("%v, want code %d", err, want)
		}
	}
	if _, err := d.do(t.Context(), "create topic=t"); err == nil || !strings.Contains(err.Error(), "not an answer") {
		t.Errorf("%v", err)
	}
	if _, err := d.do(t.Context(), "create topic=t"); err == nil {
		t.Error("a driver that has ended answered")
	}
}

func TestDriverThatHangsIsLeft(t *testing.T) {
	d := scripted(t, "sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.do(ctx, "leave"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestDriverEvents(t *testing.T) {
	d := scripted(t, `read a; echo "assigned 2,0"; echo "got 2 7 5"; echo "assigned"; echo "fault 82"; echo "fault -"; echo "acked 1"; echo ok
		read a; echo "assigned 1"; echo "got 0 0 ?rubbish"; echo ok; read a`)
	if _, err := d.do(t.Context(), "join group=g"); err != nil {
		t.Fatal(err)
	}
	got, err := d.got()
	if err != nil || !slices.Equal(got, []gotRecord{{2, 7, 5}}) || !slices.Equal(d.acked(), []int{1}) {
		t.Errorf("%v, %v, acked %v", got, err, d.acked())
	}
	if told := d.faults(); !slices.Equal(told, []int{fencedInstanceID, noCode}) {
		t.Errorf("told of %v", told)
	}
	if changes, emptied := d.assignments(); changes != 2 || emptied != 1 || len(d.assigned()) != 0 {
		t.Errorf("%d changes, %d to nothing, holds %v", changes, emptied, d.assigned())
	}
	if _, err := d.do(t.Context(), "join group=g"); err != nil {
		t.Fatal(err)
	}
	if changes, emptied := d.assignments(); changes != 1 || emptied != 0 || !slices.Equal(d.assigned(), []int{1}) {
		t.Errorf("a second join keeps what the first told: %d changes, %d to nothing, holds %v", changes, emptied, d.assigned())
	}
	if told := d.faults(); len(told) > 0 {
		t.Errorf("a second join keeps what the first was told: %v", told)
	}
	if _, err := d.got(); err == nil {
		t.Error("what is no record of ours was accepted")
	}
}

func TestATrialStopsAtItsFirstFailure(t *testing.T) {
	d := scripted(t, `read a; echo "ok"; read a; echo "error 10 big"; read a; echo "ok low=1"`)
	tr := &trial{ctx: t.Context()}
	tr.refused(d, []int{messageTooLarge}, "send")
	if tr.err == nil {
		t.Fatal("what should have been refused was not, and nobody noticed")
	}
	first := tr.err
	tr.do(d, "send")
	if tr.err != first {
		t.Errorf("went on after a failure: %v", tr.err)
	}
	tr.err = nil
	tr.refused(d, []int{messageTooLarge}, "send")
	if n := tr.number(tr.do(d, "trim"), "low"); tr.err != nil || n != 1 {
		t.Errorf("%d, %v", n, tr.err)
	}
}

func TestRecordsThatCameTwiceOrNotAtAllAreFound(t *testing.T) {
	at := func(n int) gotRecord { return gotRecord{n % 2, int64(n / 2), n} }
	for name, c := range map[string]struct {
		past []gotRecord
		may  [2]int
		want string
	}{
		"all once":           {[]gotRecord{at(0), at(1), at(2)}, [2]int{}, ""},
		"one twice":          {[]gotRecord{at(0), at(1), at(2), at(1)}, [2]int{}, "record 1 was handed over 2 times"},
		"one twice, may":     {[]gotRecord{at(0), at(1), at(2), at(1)}, [2]int{1, 2}, ""},
		"one missing":        {[]gotRecord{at(0), at(2)}, [2]int{1, 2}, "record 1 was handed over 0 times"},
		"from another place": {[]gotRecord{at(0), {1, 5, 1}, at(2)}, [2]int{}, "from partition 1 offset 5"},
	} {
		tr := &trial{ctx: t.Context(), past: c.past, repeatable: c.may, fed: 3}
		tr.exactlyOnce(2)
		if (tr.err == nil) != (c.want == "") || tr.err != nil && !strings.Contains(tr.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, tr.err, c.want)
		}
	}
}
