package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is the broker too, when this variable is set.
const asMillrace = "RUN_AS_MILLRACE"

func TestMain(m *testing.M) {
	switch os.Getenv(asMillrace) {
	case "":
	case failingDisk:
		os.Exit(serveOnFailingDisk(os.Args[1:]))
	default:
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// process is one `millrace` process of a test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	kafka  string            // HOST:PORT of the first listener
	admin  string            // URL
	byName map[string]string // HOST:PORT by listener name

	exited chan struct{}
	mu     struct {
		sync.Mutex
		stderr bytes.Buffer
	}
}

func command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = os.Environ()
	if os.Getenv(asMillrace) == "" {
		cmd.Env = append(cmd.Env, asMillrace+"=yes")
	}
	return cmd
}

// refusedStart runs `millrace serve`, which must not start, and returns what it
// says and its exit code.
func refusedStart(t *testing.T, env []string, args ...string) (stderr string, code int) {
	t.Helper()
	cmd := command(append([]string{"serve"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var errs, out bytes.Buffer
	cmd.Stderr, cmd.Stdout = &errs, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it started: %v\n%s%s", err, out.String(), errs.String())
	}
	return errs.String(), exit.ExitCode()
}

// startProcess starts `millrace serve` over dir on free ports and waits until it
// says where it listens.
func startProcess(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, exited: make(chan struct{}), byName: make(map[string]string)}
	all := []string{"serve", "--data", dir, "--admin", "127.0.0.1:0"} // serveOnFailingDisk reads these
	if !strings.Contains(strings.Join(args, " "), "listeners=") {
		all = append(all, "--listen", "127.0.0.1:0")
	}
	p.cmd = command(append(all, args...)...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { io.Copy(lockedWriter{p}, stderr) })
	greeted := make(chan struct{})
	readers.Go(func() {
		in := bufio.NewScanner(stdout)
		for in.Scan() {
			f := strings.Fields(in.Text())
			switch {
			case len(f) > 2 && f[0] == "kafka":
				if p.kafka == "" {
					p.kafka = f[1]
				}
				p.byName[strings.Trim(f[2], "()")] = f[1]
			case len(f) > 1 && f[0] == "admin":
				p.admin = f[1]
			case len(f) > 1 && f[0] == "connect":
				close(greeted)
			}
		}
	})
	go func() {
		readers.Wait()
		p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("stderr of the broker:\n%s", p.stderr())
		}
	})
	select {
	case <-greeted:
	case <-p.exited:
		t.Fatalf("it did not start:\n%s", p.stderr())
	case <-time.After(60 * time.Second):
		t.Fatalf("it does not start:\n%s", p.stderr())
	}
	return p
}

type lockedWriter struct{ p *process }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.mu.stderr.Write(b)
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.stderr.String()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code, -1 for a death by signal.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(40 * time.Second):
		p.t.Fatalf("it does not stop:\n%s", p.stderr())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop stops it as an operator does.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.t.Fatalf("exit code %d after SIGTERM, want 0:\n%s", code, p.stderr())
	}
}

// kill ends it with SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.wait()
}

func (p *process) listener(name string) string { return p.byName[name] }

// get reads a page of the admin address.
func (p *process) get(path string) (int, string) {
	p.t.Helper()
	c := http.Client{Timeout: 10 * time.Second}
	resp, err := c.Get(p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
