package admin

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/VictoriaMetrics/metrics"
)

// Kind is a metric's type in the Prometheus format.
type Kind string

const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one row of the table of metrics.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string
}

var metricByName = func() map[string]int {
	m := make(map[string]int, len(table))
	for i := range table {
		if _, twice := m[table[i].Name]; twice {
			panic("BUG: metric " + table[i].Name + " is in the table twice")
		}
		m[table[i].Name] = i
	}
	return m
}()

// Emitter takes the values of the metrics in any order. Only names of the table
// are taken, so the documentation cannot fall behind.
type Emitter struct {
	samples map[int]*bytes.Buffer // by place in the table
}

func (e *Emitter) metric(name string, want func(Kind) bool, labels []string) (*Metric, *bytes.Buffer) {
	i, ok := metricByName[name]
	if !ok || !want(table[i].Kind) || len(labels) != len(table[i].Labels) {
		panic(fmt.Sprintf("BUG: metric %s with labels %q is not in the table like this", name, labels))
	}
	if e.samples == nil {
		e.samples = make(map[int]*bytes.Buffer, len(table))
	}
	b := e.samples[i]
	if b == nil {
		b = new(bytes.Buffer)
		e.samples[i] = b
	}
	return &table[i], b
}

// Set gives the value of a counter or gauge. labels are the values of the
// table's labels, in their order.
func (e *Emitter) Set(name string, value float64, labels ...string) {
	m, b := e.metric(name, func(k Kind) bool { return k != Histogram }, labels)
	b.WriteString(m.Name)
	writeLabels(b, m.Labels, labels, "", "")
	b.WriteByte(' ')
	writeFloat(b, value)
	b.WriteByte('\n')
}

// SetHistogram gives a histogram: counts[i] values were at most bounds[i] and
// above the bound before, the last count is of those above all bounds.
func (e *Emitter) SetHistogram(name string, bounds []float64, counts []uint64, sum float64, labels ...string) {
	m, b := e.metric(name, func(k Kind) bool { return k == Histogram }, labels)
	if len(counts) != len(bounds)+1 {
		panic("BUG: a histogram has one count more than it has bounds")
	}
	var total uint64
	for i, n := range counts {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		b.WriteString(m.Name + "_bucket")
		writeLabels(b, m.Labels, labels, "le", le)
		fmt.Fprintf(b, " %d\n", total)
	}
	b.WriteString(m.Name + "_sum")
	writeLabels(b, m.Labels, labels, "", "")
	b.WriteByte(' ')
	writeFloat(b, sum)
	b.WriteString("\n" + m.Name + "_count")
	writeLabels(b, m.Labels, labels, "", "")
	fmt.Fprintf(b, " %d\n", total)
}

func writeLabels(b *bytes.Buffer, names, values []string, extraName, extraValue string) {
	sep := byte('{')
	pair := func(name, value string) {
		b.WriteByte(sep)
		sep = ','
		b.WriteString(name)
		b.WriteString(`="`)
		b.WriteString(labelEscaper.Replace(value))
		b.WriteByte('"')
	}
	for i, n := range names {
		pair(n, values[i])
	}
	if extraName != "" {
		pair(extraName, extraValue)
	}
	if sep == ',' {
		b.WriteByte('}')
	}
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func writeFloat(b *bytes.Buffer, v float64) {
	b.Write(strconv.AppendFloat(b.AvailableBuffer(), v, 'g', -1, 64))
}

// writeTo writes what was collected, in the table's order, and then the
// process's own metrics (go_* and process_*).
func (e *Emitter) writeTo(w io.Writer) {
	for i := range table {
		b := e.samples[i]
		if b == nil {
			continue
		}
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", table[i].Name, table[i].Help, table[i].Name, table[i].Kind)
		w.Write(b.Bytes())
	}
	metrics.ExposeMetadata(true) // its HELP and TYPE lines
	metrics.WriteProcessMetrics(w)
}

// Table lists every metric, in the order of /metrics.
func Table() []Metric { return slices.Clone(table) }

// Markdown writes docs/METRICS.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

This file is generated from the table in net/admin by ` + "`make docs`" + `.

` + "`GET /metrics`" + ` on the admin address answers in the Prometheus text format. The
number of time series is bounded: nothing is labelled by topic, partition, group
or client. Metrics of the Go runtime (` + "`go_*`" + `) and of the process (` + "`process_*`" + `)
follow the broker's own.

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, m := range table {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, ", "), m.Help)
	}
	return b.String()
}
