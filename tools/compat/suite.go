package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// suite runs cells against one broker.
type suite struct {
	// Immutable.
	target  target
	brokers []string
	in      *installer
	logs    string
	limit   time.Duration
	prefix  string
	cl      *kgo.Client
	adm     *kadm.Client
	barrier *barrier

	mu struct {
		sync.Mutex
		t *table
	}
}

func newSuite(t target, in *installer, logs string, limit time.Duration) (*suite, error) {
	s := &suite{target: t, brokers: strings.Split(t.brokers, ","), in: in, logs: logs, limit: limit,
		prefix: fmt.Sprintf("compat-%06x", rand.IntN(1<<24))}
	return s, s.open()
}

func (s *suite) close() { s.adm.Close() }

// run fills the table: first all cells that leave the broker alone, jobs at a
// time, then the ones with a restart all at once.
func (s *suite) run(ctx context.Context, clients []client, scenarios []scenario, failed map[string]error, jobs int) *table {
	t := &table{clients: clients, cell: map[string]map[string]cell{}}
	s.mu.t = t
	for _, sc := range scenarios {
		if sc.name != restartName || len(s.target.restarts) > 0 {
			t.scenarios = append(t.scenarios, sc)
		}
	}
	for _, c := range clients {
		t.cell[c.name] = map[string]cell{}
	}
	type work struct {
		c client
		s scenario
	}
	var calm, restarting []work
	for _, sc := range t.scenarios {
		for _, c := range clients {
			_, cannot := c.cannot[sc.name]
			switch err := failed[c.needs]; {
			case cannot:
				s.set(c, sc, cell{"-", c.cannot[sc.name]})
			case err != nil:
				s.set(c, sc, cell{"FAIL", "not installed"})
			case sc.name == restartName:
				restarting = append(restarting, work{c, sc})
			default:
				calm = append(calm, work{c, sc})
			}
		}
	}
	queue := make(chan work)
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			for w := range queue {
				s.runCell(ctx, w.c, w.s)
			}
		})
	}
	for _, w := range calm {
		queue <- w
	}
	close(queue)
	wg.Wait()
	s.barrier = newBarrier(len(restarting), s.target.restarts)
	for _, w := range restarting {
		wg.Go(func() {
			s.runCell(ctx, w.c, w.s)
			s.barrier.leave(ctx)
		})
	}
	wg.Wait()
	return t
}

func (s *suite) set(c client, sc scenario, x cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.t.cell[c.name][sc.name] = x
}

func (s *suite) runCell(ctx context.Context, c client, sc scenario) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	begin := time.Now()
	err := s.cell(ctx, c, sc)
	took := time.Since(begin).Seconds()
	if err != nil {
		fmt.Printf("%-14s %-10s FAIL %5.1f s  %v\n", c.name, sc.name, took, err)
		s.set(c, sc, cell{"FAIL", err.Error()})
		return
	}
	fmt.Printf("%-14s %-10s ok   %5.1f s\n", c.name, sc.name, took)
	s.set(c, sc, cell{"ok", ""})
}

func (s *suite) cell(ctx context.Context, c client, sc scenario) error {
	topic := fmt.Sprintf("%s-%s-%s", s.prefix, c.name, sc.name)
	group := topic + "-group"
	args, err := sc.prepare(ctx, s, c, topic)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	args = append([]string{"--brokers", s.target.brokers, "--scenario", sc.driver, "--topic", topic, "--group", group}, args...)
	if err := s.drive(ctx, c, sc, append(c.command(s.in), args...), topic); err != nil {
		return err
	}
	if err := sc.verify(ctx, s, c, topic, group); err != nil {
		return fmt.Errorf("the client is content, but: %w", err)
	}
	return nil
}

// drive runs the driver, answers what it asks, and returns its verdict.
func (s *suite) drive(ctx context.Context, c client, sc scenario, command []string, topic string) error {
	log, err := os.Create(filepath.Join(s.logs, c.name+"-"+sc.name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = s.in.env()
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The whole group: drivers of command-line tools have children.
	killGroup := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	defer killGroup()
	defer context.AfterFunc(ctx, killGroup)()
	verdict := s.converse(ctx, out, in, log, topic)
	waitErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("not done within %v (%s)", s.limit, verdict)
	case verdict == "ok":
		return waitErr
	case strings.HasPrefix(verdict, "fail: "):
		return errors.New(strings.TrimPrefix(verdict, "fail: "))
	}
	return fmt.Errorf("the driver ended without a verdict (%v), last line %q", waitErr, verdict)
}

// converse returns the last line of the driver's output.
func (s *suite) converse(ctx context.Context, out io.Reader, in io.Writer, log io.Writer, topic string) string {
	last, rounds := "", 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		last = lines.Text()
		fmt.Fprintln(log, last)
		var err error
		switch last {
		case "ask more":
			err = s.more(ctx, topic, rounds)
			rounds++
		case "ask restart":
			err = s.barrier.restart(ctx)
		default:
			continue
		}
		answer := "done"
		if err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(log, answer)
		if _, err := fmt.Fprintln(in, answer); err != nil {
			return "the driver no longer listens: " + err.Error()
		}
	}
	return last
}

// barrier lets all drivers that wait for a restart see the same one.
type barrier struct {
	restarts []func(context.Context) error
	mu       struct {
		sync.Mutex
		expected int // drivers that have neither asked nor ended
		asked    bool
		started  bool
	}
	done chan struct{}
	err  error // valid once done is closed
}

func newBarrier(n int, restarts []func(context.Context) error) *barrier {
	b := &barrier{restarts: restarts, done: make(chan struct{})}
	b.mu.expected = n
	return b
}

// restart returns when the broker has been restarted. Errors: that failed, or
// ctx ended.
func (b *barrier) restart(ctx context.Context) error {
	b.mu.Lock()
	b.mu.expected--
	b.mu.asked = true
	b.mu.Unlock()
	b.perhaps(ctx)
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave is called once by each cell at its end, whether it had asked or not.
func (b *barrier) leave(ctx context.Context) {
	select {
	case <-b.done: // it had asked, or is late
		return
	default:
	}
	b.mu.Lock()
	b.mu.expected--
	b.mu.Unlock()
	b.perhaps(ctx)
}

func (b *barrier) perhaps(ctx context.Context) {
	b.mu.Lock()
	due := b.mu.expected <= 0 && b.mu.asked && !b.mu.started
	if due {
		b.mu.started = true
	}
	b.mu.Unlock()
	if !due {
		return
	}
	for _, r := range b.restarts {
		if b.err = r(ctx); b.err != nil {
			break
		}
		// Between two restarts the clients get some traffic through.
		if b.err = sleep(ctx, 2*time.Second); b.err != nil {
			break
		}
	}
	close(b.done)
}
