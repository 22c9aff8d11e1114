package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"millrace/bench/peers"
)

// driver is a process that does with one client what it is told; see
// clients/README.md. Commands are given from one goroutine.
type driver struct {
	// Immutable.
	cmd     *exec.Cmd
	in      io.WriteCloser
	log     *os.File
	answers chan string
	exited  chan struct{}

	mu struct {
		sync.Mutex
		// Since the last assign or join.
		assigned   []int
		emptied    int // times that a held assignment became empty
		changes    int // events of assignment
		got        []gotRecord
		unreadable string
		faults     []int // codes of what the consumer told, noCode for none
		acked      []int // since the last stream
	}
}

// gotRecord is a record that a consumer handed over.
type gotRecord struct {
	partition int
	offset    int64
	number    int
}

// refusal is a driver's `error CODE TEXT`. Code -1000 stands for none, as -1 is
// Kafka's UNKNOWN_SERVER_ERROR.
type refusal struct {
	code int
	text string
}

const noCode = -1000

func (r *refusal) Error() string { return r.text }

// startDriver runs a client's driver. It lives until kill or close.
func startDriver(c client, in *installer, brokers, logPath string) (*driver, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	command := append(c.command(in), "--brokers", brokers)
	d := &driver{cmd: exec.Command(command[0], command[1:]...), log: log, answers: make(chan string, 1), exited: make(chan struct{})}
	d.cmd.Env = in.env()
	d.cmd.Stderr = log
	var out io.Reader
	if d.in, out, err = peers.StartTalking(d.cmd); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go d.listen(out)
	return d, nil
}

func (d *driver) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		if d.event(line) {
			continue
		}
		fmt.Fprintln(d.log, line)
		if line == "ok" || strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "error ") {
			select {
			case d.answers <- line:
			default: // nobody asked; do shows that the conversation is out of step
			}
		}
	}
	// The error of a process that was killed says nothing.
	_ = d.cmd.Wait()
	close(d.exited)
}

// event takes in an event line; false: it is none.
func (d *driver) event(line string) bool {
	words := strings.Fields(line)
	if len(words) == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch words[0] {
	case "got":
		d.gotLocked(words[1:])
	case "assigned":
		d.assignedLocked(words[1:])
		fmt.Fprintln(d.log, line)
	case "fault":
		code := noCode
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
			code = n
		}
		d.mu.faults = append(d.mu.faults, code)
		fmt.Fprintln(d.log, line)
	case "acked":
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
			d.mu.acked = append(d.mu.acked, n)
		}
	default:
		return false
	}
	return true
}

func (d *driver) gotLocked(words []string) {
	var r gotRecord
	var errs [3]error
	if len(words) == 3 {
		r.partition, errs[0] = strconv.Atoi(words[0])
		r.offset, errs[1] = strconv.ParseInt(words[1], 10, 64)
		r.number, errs[2] = strconv.Atoi(words[2])
	}
	if len(words) != 3 || errors.Join(errs[:]...) != nil {
		d.mu.unreadable = strings.Join(words, " ")
		return
	}
	d.mu.got = append(d.mu.got, r)
}

func (d *driver) assignedLocked(words []string) {
	had := len(d.mu.assigned)
	d.mu.assigned = nil
	for _, w := range words {
		for p := range strings.SplitSeq(w, ",") {
			if n, err := strconv.Atoi(p); err == nil {
				d.mu.assigned = append(d.mu.assigned, n)
			}
		}
	}
	slices.Sort(d.mu.assigned)
	d.mu.changes++
	if had > 0 && len(d.mu.assigned) == 0 {
		d.mu.emptied++
	}
}

// do gives one command and waits for its answer. Errors: *refusal for what the
// client refused; the driver has ended; ctx.
func (d *driver) do(ctx context.Context, command string) (map[string]string, error) {
	d.forget(command)
	fmt.Fprintf(d.log, "%s > %s\n", time.Now().Format("15:04:05.000"), command)
	if _, err := io.WriteString(d.in, command+"\n"); err != nil {
		return nil, fmt.Errorf("the driver no longer listens: %w", err)
	}
	select {
	case line := <-d.answers:
		return parseAnswer(line)
	case <-d.exited:
		select {
		case line := <-d.answers:
			return parseAnswer(line)
		default:
			return nil, fmt.Errorf("the driver has ended, with %q", d.lastLogLine())
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lastLogLine is the end of what the driver wrote.
func (d *driver) lastLogLine() string {
	b, err := os.ReadFile(d.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// forget begins the events anew when the command begins what they tell of.
func (d *driver) forget(command string) {
	verb, _, _ := strings.Cut(command, " ")
	d.mu.Lock()
	defer d.mu.Unlock()
	switch verb {
	case "assign", "join":
		d.mu.assigned, d.mu.emptied, d.mu.changes, d.mu.got, d.mu.unreadable, d.mu.faults = nil, 0, 0, nil, "", nil
	case "stream":
		d.mu.acked = nil
	}
}

func parseAnswer(line string) (map[string]string, error) {
	words := strings.Fields(line)
	if words[0] == "error" {
		r := &refusal{code: noCode, text: line}
		if len(words) > 1 && words[1] != "-" {
			n, err := strconv.Atoi(words[1])
			if err != nil {
				return nil, fmt.Errorf("not an answer: %q", line)
			}
			r.code = n
		}
		return nil, r
	}
	values := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		values[k] = v
	}
	return values, nil
}

func (d *driver) assigned() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.assigned)
}

// assignments counts the changes of the assignment, and those that took
// everything away, since assign or join.
func (d *driver) assignments() (changes, emptied int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.changes, d.mu.emptied
}

// got is what was handed over since assign or join. Error: something that is no
// record of ours.
func (d *driver) got() ([]gotRecord, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.unreadable != "" {
		return nil, fmt.Errorf("the consumer handed over something else: %.100q", d.mu.unreadable)
	}
	return slices.Clone(d.mu.got), nil
}

// faults are the codes that the consumer told since assign or join.
func (d *driver) faults() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.faults)
}

func (d *driver) acked() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.acked)
}

// signal sends a signal to the driver and its children.
func (d *driver) signal(sig syscall.Signal) error { return syscall.Kill(-d.cmd.Process.Pid, sig) }

// kill ends the process with SIGKILL and waits for it.
func (d *driver) kill() {
	_ = d.signal(syscall.SIGKILL) // it may have ended by itself
	<-d.exited
	_ = d.log.Close()
}

// close ends the process by the end of its input, within two seconds.
func (d *driver) close() {
	_ = d.in.Close()
	select {
	case <-d.exited:
	case <-time.After(2 * time.Second):
	}
	d.kill()
}
