package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/core/config"
	"millrace/raftlog"
	"millrace/tools/cli"
)

// failingDisk is the value of asMillrace for a broker whose syncs fail as soon
// as a file called "fail" stands beside its data directory, whose disk is full
// while one called "full" does and slow while one called "slow" does, and whose
// syncs panic with what one called "panic" says. With "hasty" the start does not
// wait for leaders for long.
const failingDisk = "failing-disk"

type failingFS struct {
	raftlog.FS
	trigger string
}

func (f failingFS) Create(name string) (raftlog.File, error) {
	file, err := f.FS.Create(name)
	return failingFile{file, f.trigger}, err
}

func (f failingFS) Open(name string) (raftlog.File, error) {
	file, err := f.FS.Open(name)
	return failingFile{file, f.trigger}, err
}

func (f failingFS) Space() (free, total int64, err error) {
	if free, total, err = f.FS.Space(); err == nil {
		if standsBeside(f.trigger, "full") {
			free = 0
		}
	}
	return free, total, err
}

type failingFile struct {
	raftlog.File
	trigger string
}

func (f failingFile) Sync() error {
	if _, err := os.Stat(f.trigger); err == nil {
		return syscall.EIO
	}
	if standsBeside(f.trigger, "slow") {
		time.Sleep(slowSync)
	}
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(f.trigger), "panic")); err == nil {
		panic(string(text))
	}
	return f.File.Sync()
}

const slowSync = 300 * time.Millisecond

// standsBeside says whether a file with that name stands beside another one.
func standsBeside(file, name string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(file), name))
	return err == nil
}

// serveOnFailingDisk takes the arguments of `millrace serve --data DIR`.
func serveOnFailingDisk(args []string) int {
	dir := args[2]
	if standsBeside(dir, "hasty") {
		leadersWait = slowSync / 10
	}
	cfg, err := config.Load(config.Input{Flags: []config.Assignment{
		{Name: "data.dir", Value: dir}, {Name: "listeners", Value: "PLAINTEXT://127.0.0.1:0"}, {Name: "admin.listen", Value: "127.0.0.1:0"},
	}})
	if err == nil {
		d := func(fs raftlog.FS) raftlog.FS { return failingFS{fs, filepath.Join(filepath.Dir(dir), "fail")} }
		err = serve(cfg, d, os.Stdout, os.Stderr)
	}
	return cli.Report(os.Stderr, err)
}

func TestFailedSyncEndsTheProcessAndNothingAcknowledgedIsLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv(asMillrace, failingDisk)
	p := startProcess(t, dir)
	cl := client(t, p.kafka)
	createTopic(t, cl, "t", 1, nil)
	produce(t, cl, "t", 0, 100)

	trigger := filepath.Join(filepath.Dir(dir), "fail")
	if err := os.WriteFile(trigger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failing := client(t, p.kafka, kgo.RecordDeliveryTimeout(2*time.Second), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0))
	if err := failing.ProduceSync(within(t, 20*time.Second), &kgo.Record{Topic: "t", Value: []byte("never")}).FirstErr(); err == nil {
		t.Error("a record was acknowledged although its sync failed")
	}
	if code := p.wait(); code != exitFatal {
		t.Errorf("exit code %d, want %d", code, exitFatal)
	}
	if !strings.Contains(p.stderr(), "level=ERROR") || strings.Contains(p.stderr(), "goroutine ") {
		t.Errorf("it said:\n%s", p.stderr())
	}
	if err := os.Remove(trigger); err != nil {
		t.Fatal(err)
	}

	p = startProcess(t, dir)
	all := client(t, p.kafka, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := consume(t, all, 100)
	delete(got, "never") // not acknowledged: it may be there or not
	checkAll(t, got, 0, 100)
	all.Close()
	p.stop()
}

func TestStartOnAFailingDiskIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv(asMillrace, failingDisk)
	p := startProcess(t, dir)
	p.stop()
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "fail"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	text, code := refusedStart(t, nil, "--data", dir)
	if code != exitRefused || !strings.Contains(text, dir) || !strings.Contains(text, "input/output error") || strings.Contains(text, "goroutine ") {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

func TestAFullDiskIsLoggedOnceForEachChange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv(asMillrace, failingDisk)
	p := startProcess(t, dir)
	cl := client(t, p.kafka, kgo.RecordDeliveryTimeout(time.Second))
	createTopic(t, cl, "t", 1, nil)
	until := func(what string, taken bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; {
			err := cl.ProduceSync(within(t, 20*time.Second), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
			if (err == nil) == taken {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	full := filepath.Join(filepath.Dir(dir), "full")
	for range 2 {
		if err := os.WriteFile(full, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		until("a full disk takes records", false)
		time.Sleep(1500 * time.Millisecond) // another look at the space tells nothing new
		if err := os.Remove(full); err != nil {
			t.Fatal(err)
		}
		until("a disk with space refuses records", true)
	}
	p.stop()
	var said []string
	for _, line := range strings.Split(p.stderr(), "\n") {
		if strings.Contains(line, "disk") {
			said = append(said, line)
			if !strings.Contains(line, "WARN") {
				t.Errorf("with log.level=warn nobody is told: %s", line)
			}
		}
	}
	if len(said) != 4 || !strings.Contains(said[0], "full") || !strings.Contains(said[1], "space again") {
		t.Errorf("four changes are told by:\n%s", strings.Join(said, "\n"))
	}
}

// TestFatalPanicsEndTheProcessWithOneLine: in the journal while it runs, and on
// the main goroutine while it starts. A fault of the program shows its trace.
func TestFatalPanicsEndTheProcessWithOneLine(t *testing.T) {
	t.Setenv(asMillrace, failingDisk)
	for _, text := range []string{"FATAL: the test says so", "BUG: the test says so"} {
		dir := filepath.Join(t.TempDir(), "data")
		p := startProcess(t, dir)
		cl := client(t, p.kafka, kgo.RecordDeliveryTimeout(time.Second))
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "panic"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// It gets no answer.
		cl.Ping(within(t, 5*time.Second))
		kadm.NewClient(cl).CreateTopics(within(t, 3*time.Second), 1, 1, nil, "t")
		code := p.wait()
		checkEnd(t, text, p.stderr(), code)
		if strings.HasPrefix(text, "FATAL") {
			said, code := refusedStart(t, nil, "--data", dir)
			checkEnd(t, text, said, code)
		}
	}
}

func checkEnd(t *testing.T, text, said string, code int) {
	t.Helper()
	lines := 0
	for _, line := range strings.Split(said, "\n") {
		if strings.Contains(line, "the test says so") {
			lines++
		}
	}
	fatal := strings.HasPrefix(text, "FATAL")
	if code != exitFatal || lines == 0 || fatal && lines != 1 {
		t.Errorf("%s: exit code %d, %d lines tell it:\n%s", text, code, lines, said)
	}
	if trace := strings.Contains(said, "goroutine ") && strings.Contains(said, "failingFile"); trace == fatal {
		t.Errorf("%s: a trace to the panic: %v\n%s", text, trace, said)
	}
}
