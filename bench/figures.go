package main

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// figures are the values of one repeat, by name.
type figures map[string]float64

// measurement is one entry of the report.
type measurement struct {
	letter  string
	title   string
	how     string // what is compared with what, for the reader of the report
	rows    []row
	targets []target
	ownOnly bool // needs settings or metrics that other brokers do not have
	run     func(ctx context.Context, b *bench, repeat int) (figures, error)
}

// row is one figure of the report.
type row struct {
	name   string // in figures
	label  string
	unit   string
	digits int
	zero   bool // 0 is a valid value
}

// target holds one figure against a bound: at most limit, or at least.
type target struct {
	name    string
	limit   float64
	atLeast bool
}

func (t target) met(v float64) bool {
	if t.atLeast {
		return v >= t.limit
	}
	return v <= t.limit
}

// complete says whether a repeat gave every figure of the report.
func (m *measurement) complete(f figures) error {
	for _, r := range m.rows {
		v, ok := f[r.name]
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || v == 0 && !r.zero {
			return fmt.Errorf("%s (%s) was measured as %v", r.label, r.name, v)
		}
	}
	return nil
}

func (m *measurement) row(name string) row {
	i := slices.IndexFunc(m.rows, func(r row) bool { return r.name == name })
	return m.rows[i]
}

// spread is the median of a figure over the repeats, with its extremes.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(repeats []figures, name string) spread {
	var v []float64
	for _, f := range repeats {
		v = append(v, f[name])
	}
	return spread{median(v), slices.Min(v), slices.Max(v)}
}

// median of an even number of values is the mean of the middle two.
func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}
