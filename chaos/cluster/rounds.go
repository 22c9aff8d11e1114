package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/bench/peers"
	"millrace/chaos/check"
)

// tormentor runs rounds of load and faults against one broker.
type tormentor struct {
	o      options
	broker peers.Broker
	// crash injects the fault and leaves everything ready for a start.
	crash func() error
	// bursts are set off in turn right before a fault; none: the steady load.
	bursts []string
	// cutsPower: the fault makes the device fail before the broker is gone.
	cutsPower bool
	// clientLog takes what the clients' libraries say.
	clientLog io.Writer

	epochs                int
	startLongest          time.Duration
	acked, polled, faults int64
}

// violations is what the checkers found.
type violations []check.Violation

func (v violations) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d violations:", len(v))
	for _, x := range v {
		fmt.Fprintf(&b, "\n  %v", x)
	}
	return b.String()
}

// run carries out all rounds in epochs; each epoch has topics and a history of
// its own. Errors: violations, or a broker that does not come back.
func (t *tormentor) run(ctx context.Context) error {
	begin := time.Now()
	if err := t.start(ctx); err != nil {
		return err
	}
	for done := 0; done < t.o.rounds; t.epochs++ {
		n := min(t.o.epoch, t.o.rounds-done)
		if err := t.epoch(ctx, n); err != nil {
			return fmt.Errorf("epoch %d (rounds %d to %d): %w", t.epochs, done+1, done+n, err)
		}
		done += n
		fmt.Printf("%d of %d rounds, %d records acknowledged, %d read, longest start %.1f s, %.0f s\n",
			done, t.o.rounds, t.acked, t.polled, t.startLongest.Seconds(), time.Since(begin).Seconds())
	}
	return nil
}

func (t *tormentor) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	took, err := t.broker.Start(ctx)
	t.startLongest = max(t.startLongest, took)
	if took > startLong && t.o.broker.Ours() {
		fmt.Printf("a start took %.1f s: %s\n", took.Seconds(), t.recovery())
	}
	return err
}

// startLong is a start worth a line.
const startLong = 2 * time.Second

// recovery is what the broker last said of its start.
func (t *tormentor) recovery() string {
	b, err := os.ReadFile(t.broker.LogPath())
	if err != nil {
		return err.Error()
	}
	var recovered, accepted string
	for line := range strings.Lines(string(b)) {
		switch {
		case strings.Contains(line, "data directory recovered"):
			recovered = strings.TrimSpace(line)
		case strings.Contains(line, "clients are accepted"):
			accepted = strings.TrimSpace(line)
		}
	}
	return recovered + "; " + accepted
}

// fault crashes the broker, which must be running until then, and starts it.
func (t *tormentor) fault(ctx context.Context) error {
	if t.broker.PID() == 0 {
		return errors.New("the broker ended by itself")
	}
	if err := t.crash(); err != nil {
		return err
	}
	t.faults++
	return t.start(ctx)
}

func (t *tormentor) epoch(ctx context.Context, rounds int) error {
	rec := &check.Recorder{}
	l := newLoad(ctx, t.broker.Addr(), fmt.Sprintf("e%d-", t.epochs), t.o.seed+uint64(t.epochs), rec, t.clientLog)
	defer func() { l.stopSends(); l.stopReads() }()
	l.lagging = !t.o.broker.Ours()
	if t.epochs%2 == 1 {
		// Retention moves the log start while faults happen.
		l.large.configs = map[string]string{"segment.bytes": "1048576", "retention.bytes": "20000000"}
	}
	if err := l.start(); err != nil {
		return err
	}
	plan := t.o.rand(uint64(t.epochs))
	for round := range rounds {
		before := l.acked.Load()
		if !pause(ctx, time.Duration(plan.ExpFloat64()*float64(t.o.every)/2)+t.o.every/2) {
			return ctx.Err()
		}
		if err := t.progress(ctx, l, before); err != nil {
			return err
		}
		t.burst(l, round)
		pause(ctx, time.Duration(plan.IntN(20_000))*time.Microsecond)
		if err := t.fault(ctx); err != nil {
			return err
		}
	}
	before := l.acked.Load()
	if err := errors.Join(t.progress(ctx, l, before), l.stop()); err != nil {
		return err
	}
	if err := t.fault(ctx); err != nil {
		return err
	}
	if err := t.judge(ctx, l, rec); err != nil {
		return err
	}
	return errors.Join(l.catalogue.clear(ctx), t.complaints())
}

// progress waits until the clients get records through again; a fault that hits
// a broker without load would prove nothing.
func (t *tormentor) progress(ctx context.Context, l *load, before int64) error {
	for end := time.Now().Add(40 * time.Second); l.acked.Load() < before+20; {
		if time.Now().After(end) {
			return errors.New("nothing was acknowledged within 40 s of a start")
		}
		if !pause(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

func (t *tormentor) burst(l *load, round int) {
	if len(t.bursts) == 0 {
		return
	}
	switch t.bursts[round%len(t.bursts)] {
	case "create":
		l.catalogue.burst(false)
	case "delete":
		l.catalogue.burst(true)
	case "roll":
		// A quarter of a second's worth of records at once: several segments.
		l.bursts.Add(1)
	}
}

// judge reads everything once more and checks the history.
func (t *tormentor) judge(ctx context.Context, l *load, rec *check.Recorder) error {
	for _, topic := range []topicSpec{l.small, l.plain, l.large} {
		if err := l.readAll(ctx, topic); err != nil {
			return err
		}
	}
	if err := errors.Join(l.observeGroup(ctx, 20*time.Second), l.catalogue.finalView(ctx)); err != nil {
		return err
	}
	if f := l.fault.Load(); f != nil {
		return errors.New(*f)
	}
	t.acked += l.acked.Load()
	t.polled += l.polled.Load()
	if l.commits.Load() == 0 {
		return errors.New("the group committed nothing in the whole epoch")
	}
	return verdict(rec.History(), filepath.Dir(t.broker.LogPath()))
}

// verdict checks a history and writes one with violations into dir. Its times
// are nanoseconds since "began".
func verdict(h *check.History, dir string) error {
	found := check.All(h)
	if len(found) == 0 {
		return nil
	}
	b, err := json.Marshal(map[string]any{"began": clockBase, "history": h})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "history.json"), b, 0o644)
	}
	return errors.Join(violations(found), err)
}

// complaints looks for panics in what our broker printed.
func (t *tormentor) complaints() error {
	if !t.o.broker.Ours() {
		return nil
	}
	b, err := os.ReadFile(t.broker.LogPath())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		for _, word := range []string{"BUG:", "FATAL:", "panic:", "fatal error:"} {
			// A power cut makes writes fail, and to stop at that is right.
			if strings.Contains(line, word) && !(t.cutsPower && word == "FATAL:") {
				return fmt.Errorf("the broker printed: %s", strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// workdir makes a fresh folder for one run.
func workdir(o options, name string) (string, error) {
	dir := filepath.Join(o.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// clientLog is where the clients' libraries log, beside the broker's log.
func clientLog(dir string) (*os.File, error) { return os.Create(filepath.Join(dir, "clients.log")) }

// kill is the subcommand.
func kill(ctx context.Context, o options) error {
	dir, err := workdir(o, "kill")
	if err != nil {
		return err
	}
	b, err := o.newBroker(dir, "")
	if err != nil {
		return err
	}
	defer b.Kill()
	log, err := clientLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	t := &tormentor{o: o, broker: b, crash: b.Kill, bursts: []string{"", "create", "delete", "roll"}, clientLog: log}
	return conclude(t, dir, t.run(ctx))
}

// conclude reports a run and removes the folder of one that went well.
func conclude(t *tormentor, dir string, err error) error {
	var found violations
	lost := errors.As(err, &found) && slicesContainLoss(found)
	switch {
	case t.o.expectLoss && lost:
		fmt.Printf("as expected, the checker found loss: %v\n", found[0])
		return nil
	case t.o.expectLoss:
		return fmt.Errorf("no loss was found, though --expect-loss asked for one: %w", err)
	case err != nil:
		return fmt.Errorf("%w\nseed %d; log %s, data %s", err, t.o.seed, t.broker.LogPath(), t.broker.DataDir())
	}
	fmt.Printf("%d faults, %d records acknowledged, %d read: no violation\n", t.faults, t.acked, t.polled)
	return errors.Join(t.broker.Kill(), os.RemoveAll(dir))
}

func slicesContainLoss(found violations) bool {
	for _, v := range found {
		if v.Kind == check.KindLost || v.Kind == check.KindUnseen {
			return true
		}
	}
	return false
}
