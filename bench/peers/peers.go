// Package peers starts brokers as real processes for whoever measures or
// tortures them from outside: our own binary, and Apache Kafka as the peer that
// the same load or the same test runs on. It also holds what such programs have in
// common: the flags that choose a broker, their exit codes, and processes that die
// with them.
//
// It runs on the caller's goroutine plus one waiter per process; Start blocks
// until the broker answers, Stop until the process is gone. Nothing here is
// durable but the data directories that it is told to use. A broker keeps its
// address and its data directory over any number of starts. Read Broker first.
package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Broker is one broker process on this machine. Its methods may be called from
// one goroutine at a time, except Kill, PID, Exited, Addr and AdminAddr.
type Broker interface {
	// Name is "millrace" or "kafka".
	Name() string
	// Addr is the Kafka listener, host:port; the same over all starts.
	Addr() string
	// AdminAddr is host:port of the operators' HTTP listener (/metrics), the same
	// over all starts; empty where the broker has none.
	AdminAddr() string
	// DataDir holds everything that outlives the process.
	DataDir() string
	// LogPath is the file with what the process printed, over all starts.
	LogPath() string
	// Start runs the process and returns when it answers ApiVersions, with the
	// time that took. Errors: the process ended, or ctx is done.
	Start(ctx context.Context) (time.Duration, error)
	// Stop sends SIGTERM and waits, then kills after grace.
	Stop(grace time.Duration) error
	// Kill sends SIGKILL and waits for the end of the process.
	Kill() error
	// PID of the running process, 0 where none runs.
	PID() int
	// Exited is closed when the process of the last Start has ended.
	Exited() <-chan struct{}
}

// process is what the peers share: one command line, started again and again.
type process struct {
	// Immutable.
	name    string
	addr    string
	admin   string
	dataDir string
	logPath string
	command func() *exec.Cmd

	mu struct {
		sync.Mutex
		pid    int
		exited chan struct{}
		err    error
	}
}

func (p *process) Name() string      { return p.name }
func (p *process) Addr() string      { return p.addr }
func (p *process) AdminAddr() string { return p.admin }
func (p *process) DataDir() string   { return p.dataDir }
func (p *process) LogPath() string   { return p.logPath }

func (p *process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.pid
}

func (p *process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.exited
}

func (p *process) Start(ctx context.Context) (time.Duration, error) {
	if p.PID() != 0 {
		return 0, fmt.Errorf("%s is already running as %d", p.name, p.PID())
	}
	if err := os.MkdirAll(filepath.Dir(p.logPath), 0o755); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	Bind(cmd)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	p.mu.Lock()
	p.mu.pid, p.mu.exited, p.mu.err = cmd.Process.Pid, exited, nil
	p.mu.Unlock()
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.mu.pid, p.mu.err = 0, err
		p.mu.Unlock()
		close(exited)
	}()
	for {
		err := ping(p.addr, 2*time.Second)
		if err == nil {
			return time.Since(begin), nil
		}
		select {
		case <-exited:
			return 0, fmt.Errorf("%s ended while starting (%v); its output is in %s", p.name, p.exitErr(), p.logPath)
		case <-ctx.Done():
			return 0, errors.Join(fmt.Errorf("%s does not answer on %s: %w (output in %s)", p.name, p.addr, err, p.logPath), p.Kill())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (p *process) exitErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

func (p *process) Stop(grace time.Duration) error {
	pid, exited := p.PID(), p.Exited()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-time.After(grace):
		return errors.Join(fmt.Errorf("%s did not stop within %v of SIGTERM", p.name, grace), p.Kill())
	}
}

func (p *process) Kill() error {
	pid, exited := p.PID(), p.Exited()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-exited
	return nil
}

// ping asks for ApiVersions version 0, which every broker answers before
// anything else works.
func ping(addr string, limit time.Duration) error {
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	// Length, key 18, version 0, correlation 1, null client ID.
	if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
		return err
	}
	var head [10]byte
	for n := 0; n < len(head); {
		m, err := c.Read(head[n:])
		if err != nil {
			return err
		}
		n += m
	}
	if head[7] != 1 || head[8] != 0 || head[9] != 0 {
		return fmt.Errorf("%s answered ApiVersions with % x", addr, head)
	}
	return nil
}

// FreePort finds a loopback port below the range that the kernel gives to
// clients: while a broker is down, a client that keeps dialling could otherwise
// be given the broker's own port and connect to itself.
func FreePort() (int, error) {
	for range 200 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no free port between 20000 and 32000 on 127.0.0.1")
}

// listenAddr is addr, or a free port of 127.0.0.1 where addr is empty.
func listenAddr(addr string) (string, error) {
	if addr != "" {
		return addr, nil
	}
	port, err := FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// ResidentBytes is the resident memory of a process (VmRSS).
func ResidentBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}

// Root is the top folder of this module, found upwards from the working
// directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if b, err := os.ReadFile(filepath.Join(d, "go.mod")); err == nil && len(b) > 15 && string(b[:15]) == "module millrace" {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("run this inside a clone of millrace: no go.mod of it in or above %s", dir)
		}
	}
}
