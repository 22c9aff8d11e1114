package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRedCountsFailedAndNotRunCells(t *testing.T) {
	tab := &table{
		clients:   []client{{name: "a"}, {name: "b"}},
		scenarios: []scenario{{name: "x"}, {name: "y"}},
		cell: map[string]map[string]cell{
			"a": {"x": {"ok", ""}, "y": {"-", "cannot"}},
			"b": {"x": {"FAIL", "broken pipe"}},
		},
	}
	if tab.red() != 2 || tab.cells() != 2 {
		t.Errorf("red %d of %d cells, want 2 of 2", tab.red(), tab.cells())
	}
	text := tab.render()
	for _, want := range []string{"FAIL", "NOT RUN", "b x: broken pipe"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

func TestAClientThatIsNotInstalledIsRed(t *testing.T) {
	s := &suite{}
	c := client{name: "a", needs: "java", cannot: map[string]string{"consume-time": "no"}}
	tab := &table{clients: []client{c}, scenarios: scenarioTable}
	s.run(t.Context(), []*table{tab}, map[string]error{"java": errors.New("no jars")}, 1)
	if want := len(scenarioTable) - 2; tab.red() != want { // consume-time, and no restart without a way to restart
		t.Errorf("%d red cells, want %d", tab.red(), want)
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for _, names := range [][2]string{{"kcat,nobody", ""}, {"", "consume-start,nothing"}} {
		if _, err := choose(names[0], names[1]); err == nil {
			t.Errorf("%q was accepted", names)
		}
	}
	tables, err := choose("franz-go", "restart")
	if err != nil || len(tables) != 1 || len(tables[0].clients) != 1 || len(tables[0].scenarios) != 1 {
		t.Errorf("%v, %v", tables, err)
	}
}

// TestScenariosOfTheTableExist guards the reasons in client.cannot against
// columns that were renamed.
func TestScenariosOfTheTableExist(t *testing.T) {
	all, err := choose("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range all {
		names := map[string]bool{"grow": true, "partitions": true}
		for _, s := range tab.scenarios {
			names[s.name] = true
		}
		for _, c := range tab.clients {
			for n := range c.cannot {
				if !names[n] {
					t.Errorf("%s cannot do %q, which is no scenario", c.name, n)
				}
			}
		}
	}
}

func TestDriveReturnsTheVerdict(t *testing.T) {
	s := &suite{in: newInstaller(t.TempDir()), limit: time.Second}
	for _, c := range []struct{ script, want string }{
		{"echo noise; echo ok", ""},
		{"echo 'fail: no leader'; exit 1", "no leader"},
		{"echo ok; exit 3", "exit status 3"},
		{"echo half", "without a verdict"},
		{"sleep 60; echo ok", "not done within"},
		{"echo ask restart; read a; echo \"fail: $a\"", "no power"},
	} {
		limit := time.Minute
		if strings.HasPrefix(c.script, "sleep") {
			limit = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		s.barrier = newBarrier(1, []func(context.Context) error{func(context.Context) error { return errors.New("no power") }})
		err := s.drive(ctx, filepath.Join(t.TempDir(), "log"), []string{"sh", "-c", c.script}, "topic")
		cancel()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.script, err, c.want)
		}
	}
}

func TestBarrierRestartsOnceAllHaveAskedOrEnded(t *testing.T) {
	restarts := 0
	b := newBarrier(3, []func(context.Context) error{func(context.Context) error { restarts++; return errors.New("stop here") }})
	asked := make(chan error, 2)
	for range 2 {
		go func() { asked <- b.restart(t.Context()) }()
	}
	select {
	case <-asked:
		t.Fatal("restarted while a driver was still on its way")
	case <-time.After(20 * time.Millisecond):
	}
	b.leave(t.Context())
	for range 2 {
		if err := <-asked; err == nil {
			t.Error("the failed restart was not reported")
		}
	}
	if restarts != 1 {
		t.Errorf("%d restarts, want 1", restarts)
	}
}

// TestRustClientIsPinned: there is no lock file, so that the manifest has to name
// exact versions.
func TestRustClientIsPinned(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("clients", "rust", "Cargo.toml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "[dependencies]\n")
	section, _, _ := strings.Cut(rest, "\n[")
	n := 0
	for line := range strings.SplitSeq(section, "\n") {
		if name, version, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			n++
			if !strings.Contains(version, `"=`) {
				t.Errorf("%s is not pinned to one version: %s", name, version)
			}
		}
	}
	if !found || n == 0 {
		t.Error("no dependencies were found")
	}
}

func TestEveryClientCanBeInstalled(t *testing.T) {
	all, err := choose("", "")
	if err != nil {
		t.Fatal(err)
	}
	in := newInstaller(t.TempDir())
	for _, tab := range all {
		for _, c := range tab.clients {
			if in.units[c.needs] == nil {
				t.Errorf("%s needs %q, which nothing installs", c.name, c.needs)
			}
		}
	}
}
