package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/bench/peers"
)

// results are what tests gave, by name: of a suite "FOLDER TestName/sub", of one
// process "TestName/sub".
type results map[string]string

// Outcomes. A test with subtests fails when one of them does: judge leaves such
// a failure to the subtests.
const (
	passed    = "pass"
	failed    = "fail"
	skipped   = "skip"
	undecided = "" // its process ended first
)

// plan is how the tests of a run are treated.
type plan struct {
	// again says of what a top-level test gave that it is to have another try,
	// attemptsMax in all; the best counts.
	again func(results) bool
	// excluded tests have excludedLimit: those that pass do so soon.
	excluded exclusions
}

const (
	attemptsMax   = 3
	excludedLimit = 30 * time.Second
)

// run runs every chosen top-level test as a process of its own, o.jobs at a
// time. Errors: a process could not be started, ctx ended.
func (b *buildOf) run(ctx context.Context, o options, logPath string, pl plan) (results, error) {
	converter, err := output(ctx, "", "go", "tool", "-n", "test2json")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &runner{converter: strings.TrimSpace(converter), env: b.suite.env(o), limit: o.limit}
	type work struct {
		p    builtPackage
		test string
	}
	next := make(chan work)
	all := results{}
	var errs []error
	var mu sync.Mutex // all, errs, log
	var wg sync.WaitGroup
	for range o.jobs {
		wg.Go(func() {
			for w := range next {
				found, text, err := r.attempts(ctx, w.p, w.test, pl)
				mu.Lock()
				maps.Copy(all, found)
				errs = append(errs, err)
				fmt.Fprintf(log, "=== %s %s\n%s\n", w.p.folder, w.test, text)
				mu.Unlock()
			}
		})
	}
	chosen := namedTests(o.tests)
	for _, p := range b.packages {
		for _, t := range p.tests {
			if chosen == nil || chosen[t] {
				next <- work{p, t}
			}
		}
	}
	close(next)
	wg.Wait()
	return all, errors.Join(append(errs, ctx.Err())...)
}

// runner runs top-level tests. Its methods may be called from any goroutine.
type runner struct {
	// Immutable.
	converter string // test2json
	env       []string
	limit     time.Duration // of one process
}

func (r *runner) attempts(ctx context.Context, p builtPackage, test string, pl plan) (results, string, error) {
	limit := r.limit
	if pl.excluded[p.folder+" "+test] != "" {
		limit = min(limit, excludedLimit)
	}
	best, text := results{}, ""
	for range attemptsMax {
		found, out, err := r.runTest(ctx, p, test, limit)
		text += out
		if err != nil {
			return nil, text, err
		}
		for name, outcome := range found {
			if full := p.folder + " " + name; best[full] != passed {
				best[full] = outcome
			}
		}
		if !pl.again(best) {
			break
		}
	}
	return best, text, nil
}

// runTest runs one top-level test and returns the outcomes of it and its
// subtests, and its output. A panic or the time limit ends the process and with
// it the subtests that were running or to come: those run again without the ones
// that have an outcome, until nothing new comes.
func (r *runner) runTest(ctx context.Context, p builtPackage, test string, limit time.Duration) (results, string, error) {
	all, text := results{}, ""
	for {
		found, out, early, err := r.process(ctx, p, test, skipPattern(all), limit)
		text += out
		if err != nil {
			return nil, text, err
		}
		before := len(all)
		for name, outcome := range found {
			if all[name] != failed && outcome != undecided { // of a parent, the worst part counts
				all[name] = outcome
			}
		}
		if !early || len(all) <= max(before, 1) || ctx.Err() != nil {
			for name := range found {
				if all[name] == undecided {
					all[name] = failed
				}
			}
			if early || all[test] == undecided {
				all[test] = failed
			}
			return all, text, nil
		}
		all[test] = failed
	}
}

// skipPattern names the subtests that have an outcome and no subtests of their
// own, for -test.skip.
func skipPattern(done results) string {
	var alternatives []string
	for name := range done.own() {
		if strings.Contains(name, "/") {
			parts := strings.Split(name, "/")
			for i, p := range parts {
				parts[i] = "^" + regexp.QuoteMeta(p) + "$"
			}
			alternatives = append(alternatives, strings.Join(parts, "/"))
		}
	}
	slices.Sort(alternatives)
	return strings.Join(alternatives, "|")
}

// process runs a test binary once. early: it ended before its tests did.
func (r *runner) process(ctx context.Context, p builtPackage, test, skip string, limit time.Duration) (found results, text string, early bool, err error) {
	// The binary's own limit prints where it hangs; the context is for one that
	// does not even do that.
	ctx, cancel := context.WithTimeout(ctx, limit+20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.converter, "-t", p.binary, "-test.v=test2json",
		"-test.run", "^"+test+"$", "-test.skip", skip, "-test.timeout", limit.String())
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), r.env...)
	peers.Bind(cmd)
	cmd.Cancel = func() error { peers.KillGroup(cmd); return nil }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", false, err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", false, err
	}
	found, text, ended, err := parse(out)
	// The exit status tells the same as the output.
	if e := cmd.Wait(); e != nil && !errors.As(e, new(*exec.ExitError)) {
		err = errors.Join(err, e)
	}
	return found, text, !ended, err
}

// event is one line of test2json.
type event struct{ Action, Test, Output string }

// textMax bounds what is kept of one process's output, bytes.
const textMax = 1 << 20

// parse reads test2json's events: the outcomes of what ran, the output, and
// whether the binary came to its end.
func parse(r io.Reader) (found results, output string, ended bool, err error) {
	found = results{}
	var text strings.Builder
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, text.String(), false, fmt.Errorf("test2json printed %q: %w", lines.Text(), err)
		}
		switch e.Action {
		case "output":
			ended = ended || e.Test == "" && (e.Output == "PASS\n" || e.Output == "FAIL\n")
			if text.Len() < textMax {
				text.WriteString(e.Output)
			}
		case "run":
			found[e.Test] = undecided
		case passed, failed, skipped:
			if e.Test != "" {
				found[e.Test] = e.Action
			}
		}
	}
	return found, text.String(), ended, lines.Err()
}
