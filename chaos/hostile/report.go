package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bench/peers"
)

// answersText is what Apache Kafka 4.4 gives: NAME = OUTCOME, one a line, with a
// reason after " # " where the broker differs on purpose.
//
//go:embed answers.txt
var answersText string

const answersFile = "chaos/hostile/answers.txt"

// answer is what Kafka gives, and why something else is right here.
type answer struct{ kafka, ours, why string }

// readAnswers parses lines
//
//	NAME = KAFKA
//	NAME = KAFKA | OURS # why
func readAnswers() (map[string]answer, error) {
	all := make(map[string]answer)
	for line := range strings.Lines(answersText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(line, " = ")
		if !ok || all[name] != (answer{}) {
			return nil, fmt.Errorf("%s: %q is no NAME = OUTCOME, or stands there twice", answersFile, line)
		}
		a := answer{kafka: rest}
		if outcomes, why, ok := strings.Cut(rest, " # "); ok {
			a.why = why
			a.kafka, a.ours, _ = strings.Cut(outcomes, " | ")
		}
		all[name] = a
	}
	return all, nil
}

// expected is what this broker is to give; "" where nothing is known.
func (a answer) expected() string {
	if a.ours != "" {
		return a.ours
	}
	return a.kafka
}

// row is one line of the report.
type row struct {
	name          string
	got           outcome
	err           error
	took          time.Duration
	quiet, during Window
	peak          int64
	cpu           time.Duration // of the broker
	load          bool
}

func (r row) String() string {
	text := strings.TrimSpace(r.got.text + "; " + r.got.figures)
	text = strings.Trim(text, "; ")
	if r.err != nil {
		text += " FAILED: " + r.err.Error()
	}
	return fmt.Sprintf("%-50s %-60s %5.1fs %5.1f CPU s %5d MiB  p99 %s -> %s, reference %s", r.name, text, r.took.Seconds(), r.cpu.Seconds(), r.peak>>20, ms(r.quiet.Produce99), ms(r.during.Produce99), ms(r.during.Ref99))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1fms", float64(d)/1e6) }

type report struct {
	env  *env
	rows []row
}

// print writes the table. Single requests take milliseconds, in which neither
// memory nor the bystander can be told.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n| attack | what it got | Kafka 4.4 | seconds | broker's CPU s | resident MiB | bystander's p99 before, median and p99 during (ms) | reference's p99 during (ms) |\n|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.rows {
		got := strings.Trim(row.got.text+"; "+row.got.figures, "; ")
		if row.err != nil {
			got += " FAILED: " + row.err.Error()
		}
		kafka := r.env.answers[row.name].kafka
		if kafka == row.got.text {
			kafka = "the same"
		}
		if !row.load {
			fmt.Fprintf(w, "| %s | %s | %s | | | | | |\n", row.name, cell(got), cell(kafka))
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.1f | %.1f | %d | %.0f, %.0f, %.0f | %.0f |\n", row.name, cell(got), cell(kafka), row.took.Seconds(), row.cpu.Seconds(), row.peak>>20,
			float64(row.quiet.Produce99)/1e6, float64(row.during.Produce50)/1e6, float64(row.during.Produce99)/1e6, float64(row.during.Ref99)/1e6)
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// How far the bystander's times may grow: what it has at rest, or what the reference
// has beside the same attack, whichever is more, times a factor, and a time that
// attacks may take of a loop in all. A broker that serves others after the attackers
// has a median as long as the attack; one that lets them take turns has not.
const (
	medianTimes = 5
	medianMore  = 250 * time.Millisecond
	p99Times    = 10
	p99More     = 1500 * time.Millisecond
)

// tooSlow says how the bystander's times are beyond those bounds; without all of them
// only that it stood still.
func (r row) tooSlow(all bool) string {
	if !r.load {
		return ""
	}
	base := max(r.quiet.Produce99, r.during.Ref99)
	for _, c := range []struct {
		what       string
		always     bool
		got, bound time.Duration
	}{
		{"median", false, r.during.Produce50, medianTimes*base + medianMore},
		{"p99", false, r.during.Produce99, p99Times*base + p99More},
		{"slowest", true, r.during.Slowest, p99Times*base + standstillMax},
	} {
		if (all || c.always) && c.got > c.bound {
			return fmt.Sprintf("the bystander's %s is %v, the bound %v (p99 at rest %v, of the reference %v)",
				c.what, c.got, c.bound, r.quiet.Produce99, r.during.Ref99)
		}
	}
	return ""
}

// faults judges.
func (r *report) faults() error {
	var errs []error
	for _, row := range r.rows {
		if row.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", row.name, row.err))
			continue
		}
		if !r.env.o.broker.Ours() {
			continue
		}
		if want := r.env.answers[row.name].expected(); want != "" && want != row.got.text {
			errs = append(errs, fmt.Errorf("%s: got %q, want %q (%s)", row.name, row.got.text, want, answersFile))
		}
		if row.peak > r.env.o.budgetMiB<<20 {
			errs = append(errs, fmt.Errorf("%s: the broker grew to %d MiB, its budget is %d", row.name, row.peak>>20, r.env.o.budgetMiB))
		}
		if why := row.tooSlow(r.env.o.all); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s", row.name, why))
		}
	}
	return errors.Join(errs...)
}

// record writes what Kafka gave, and keeps the reasons.
func (r *report) record() error {
	if r.env.o.broker.Peer != "kafka" {
		return errors.New("-record is for -peer kafka")
	}
	all := r.env.answers
	for _, row := range r.rows {
		if row.got.text != "" {
			a := all[row.name]
			a.kafka = row.got.text
			all[row.name] = a
		}
	}
	var lines []string
	for name, a := range all {
		line := name + " = " + a.kafka
		if a.why != "" {
			line += " | " + a.ours + " # " + a.why
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	root, err := peers.Root()
	if err != nil {
		return err
	}
	text := "# What Apache Kafka 4.4 gives (go run ./chaos/hostile -peer kafka -record), and where\n" +
		"# this broker differs on purpose: NAME = KAFKA | OURS # reason\n" + strings.Join(lines, "\n") + "\n"
	return os.WriteFile(filepath.Join(root, answersFile), []byte(text), 0o644)
}
