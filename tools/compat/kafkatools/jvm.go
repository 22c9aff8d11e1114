package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"millrace/bench/peers"
)

// jvm runs Kafka's tools by Driver.java. It is used from one goroutine.
type jvm struct {
	// Immutable.
	classpath string
	log       io.Writer

	cmd     *exec.Cmd // nil: none runs
	orders  io.WriteCloser
	answers *bufio.Reader
}

// result is what a tool left: its exit status and what it printed.
type result struct {
	tool     string
	args     []string
	exit     int
	out, err string
}

// newJVM compiles the driver into dir.
func newJVM(ctx context.Context, source, libs, dir string, log io.Writer) (*jvm, error) {
	cmd := exec.CommandContext(ctx, "javac", "-d", dir, "-cp", filepath.Join(libs, "*"), filepath.Join(source, "Driver.java"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac Driver.java: %w: %s", err, out)
	}
	return &jvm{classpath: dir + string(os.PathListSeparator) + source + string(os.PathListSeparator) + filepath.Join(libs, "*"), log: log}, nil
}

func (j *jvm) start(ctx context.Context) error {
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", j.classpath, "Driver")
	cmd.Stderr = j.log
	in, out, err := peers.StartTalking(cmd)
	if err != nil {
		return err
	}
	j.cmd, j.orders, j.answers = cmd, in, bufio.NewReader(out)
	return nil
}

// run runs the main method of a class of org.apache.kafka.tools. When ctx ends
// first the JVM is killed. Errors: there was no answer.
func (j *jvm) run(ctx context.Context, tool string, args ...string) (result, error) {
	r := result{tool: tool, args: args}
	if j.cmd == nil {
		if err := j.start(ctx); err != nil {
			return r, err
		}
	}
	cmd := j.cmd
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	order, err := json.Marshal(map[string]any{"tool": "org.apache.kafka.tools." + tool, "args": append([]string{}, args...)})
	if err != nil {
		return r, err
	}
	_, writeErr := j.orders.Write(append(order, '\n'))
	line, readErr := j.answers.ReadBytes('\n')
	if err := errors.Join(writeErr, readErr); err != nil {
		return r, errors.Join(fmt.Errorf("%s %s: no answer: %w", tool, strings.Join(args, " "), err), ctx.Err(), j.wait())
	}
	var answer struct {
		Exit     *int
		Out, Err string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return r, fmt.Errorf("%s answered %q: %w", tool, line, err)
	}
	r.out, r.err = answer.Out, answer.Err
	if answer.Exit != nil {
		r.exit = *answer.Exit
	} else { // the tool has ended the JVM
		err := j.wait()
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			r.exit = e.ExitCode()
		} else if err != nil {
			return r, err
		}
	}
	fmt.Fprintf(j.log, "> %s %s\nexit %d\n%s%s\n", tool, strings.Join(args, " "), r.exit, r.out, r.err)
	return r, nil
}

// wait waits for the end of the process; the next run starts another.
func (j *jvm) wait() error {
	_ = j.orders.Close() // it may have been closed by the end of the process
	err := j.cmd.Wait()
	j.cmd = nil
	return err
}

func (j *jvm) close() error {
	if j.cmd == nil {
		return nil
	}
	return j.wait()
}

// alone runs a tool in a JVM of its own: one that does its work as the JVM ends.
func (t *trial) alone(tool string, args ...string) result {
	t.calls++
	args = append([]string{"--bootstrap-server", t.broker}, args...)
	j := t.java
	cmd := exec.CommandContext(t.ctx, "java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", j.classpath, "org.apache.kafka.tools." + tool}, args...)...)
	peers.Bind(cmd)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	r := result{tool: tool, args: args, exit: cmd.ProcessState.ExitCode(), out: out.String(), err: errOut.String()}
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		t.failf("%s: %v", tool, err)
	}
	fmt.Fprintf(j.log, "> %s %s\nexit %d\n%s%s\n", tool, strings.Join(args, " "), r.exit, r.out, r.err)
	return r
}
