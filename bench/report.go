package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
)

// markdown prints the targets with their verdicts, then every figure.
func markdown(o options, ms []*measurement, results [][]figures) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("%s, %d cores, medians of %d interleaved repeats, loads of %d s (smallest to largest in brackets)\n", o.broker.Peer, runtime.NumCPU(), o.repeats, o.seconds)
	p("| | figure | target | measured | verdict |")
	p("|---|---|---|---|---|")
	for k, m := range ms {
		for _, t := range m.targets {
			r, s := m.row(t.name), spreadOf(results[k], t.name)
			p("| %s | %s | %s | %s | %s |", m.letter, r.label, t.text(r), r.text(s), verdict(t, s))
		}
	}
	for k, m := range ms {
		p("\n## (%s) %s\n\n%s\n", m.letter, m.title, m.how)
		p("| figure | measured |")
		p("|---|---|")
		for _, r := range m.rows {
			p("| %s | %s |", r.label, r.text(spreadOf(results[k], r.name)))
		}
	}
	return b.String()
}

func verdict(t target, s spread) string {
	if t.met(s.Median) {
		return "met"
	}
	return "MISSED"
}

func (t target) text(r row) string {
	word := "at most"
	if t.atLeast {
		word = "at least"
	}
	return fmt.Sprintf("%s %g%s", word, t.limit, unit(r.unit))
}

func (r row) text(s spread) string {
	f := func(v float64) string { return fmt.Sprintf("%.*f", r.digits, v) }
	return fmt.Sprintf("%s%s (%s to %s)", f(s.Median), unit(r.unit), f(s.Min), f(s.Max))
}

func unit(u string) string {
	if u == "" || u == "x" {
		return u
	}
	return " " + u
}

// printJSON prints the same with all repeats.
func printJSON(w io.Writer, o options, ms []*measurement, results [][]figures) error {
	type judged struct {
		Figure  string  `json:"figure"`
		Limit   float64 `json:"limit"`
		AtLeast bool    `json:"at_least"`
		Met     bool    `json:"met"`
	}
	type measured struct {
		Letter  string            `json:"letter"`
		Title   string            `json:"title"`
		Units   map[string]string `json:"units"`
		Targets []judged          `json:"targets"`
		Summary map[string]spread `json:"summary"`
		Repeats []figures         `json:"repeats"`
	}
	out := []measured{}
	for k, m := range ms {
		x := measured{m.letter, m.title, map[string]string{}, []judged{}, map[string]spread{}, results[k]}
		for _, r := range m.rows {
			x.Units[r.name], x.Summary[r.name] = r.unit, spreadOf(results[k], r.name)
		}
		for _, t := range m.targets {
			x.Targets = append(x.Targets, judged{t.name, t.limit, t.atLeast, t.met(x.Summary[t.name].Median)})
		}
		out = append(out, x)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"peer": o.broker.Peer, "cores": runtime.NumCPU(), "repeats": o.repeats, "seconds": o.seconds, "measurements": out})
}
