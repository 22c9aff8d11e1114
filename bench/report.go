package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

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

func of(rs []result, f func(*result) float64) float64 {
	var v []float64
	for i := range rs {
		v = append(v, f(&rs[i]))
	}
	return median(v)
}

func medianLatency(rs []result, f func(*result) *latency) latency {
	return latency{
		P50:      of(rs, func(r *result) float64 { return f(r).P50 }),
		P99:      of(rs, func(r *result) float64 { return f(r).P99 }),
		P999:     of(rs, func(r *result) float64 { return f(r).P999 }),
		Max:      of(rs, func(r *result) float64 { return f(r).Max }),
		Achieved: of(rs, func(r *result) float64 { return f(r).Achieved }),
		Cores:    of(rs, func(r *result) float64 { return f(r).Cores }),
	}
}

// summarise takes the median of every figure.
func summarise(rs []result) result {
	return result{
		Latency:     medianLatency(rs, func(r *result) *latency { return &r.Latency }),
		BareLatency: medianLatency(rs, func(r *result) *latency { return &r.BareLatency }),
		Throughput: throughput{
			MBps:     of(rs, func(r *result) float64 { return r.Throughput.MBps }),
			CPUPerGB: of(rs, func(r *result) float64 { return r.Throughput.CPUPerGB }),
		},
		BareMBps: of(rs, func(r *result) float64 { return r.BareMBps }),
		Idle: idle{
			Fresh:     of(rs, func(r *result) float64 { return r.Idle.Fresh }),
			AfterLoad: of(rs, func(r *result) float64 { return r.Idle.AfterLoad }),
			DiskMiB:   of(rs, func(r *result) float64 { return r.Idle.DiskMiB }),
		},
		Start: starts{
			Empty:        of(rs, func(r *result) float64 { return r.Start.Empty }),
			AfterKill:    of(rs, func(r *result) float64 { return r.Start.AfterKill }),
			AfterKillAll: of(rs, func(r *result) float64 { return r.Start.AfterKillAll }),
		},
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", a/b)
}

func render(o options, s result) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("%s, medians of %d interleaved repeats of %d s", o.peer, o.repeats, o.seconds)
	if s.Latency.Achieved > 0 {
		p("")
		p("acks=all, %d requests/s of 1 KiB, 4 clients, 16 partitions, from the intended send time", o.rate)
		p("%-28s %9s %9s %9s %9s %11s", "", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "answers/s")
		row := func(name string, l latency) {
			p("%-28s %9.2f %9.2f %9.2f %9.2f %11.0f", name, l.P50, l.P99, l.P999, l.Max, l.Achieved)
		}
		row("broker", s.Latency)
		row("bare append + fdatasync", s.BareLatency)
		p("%-28s %9s %9s %9s", "ratio", ratio(s.Latency.P50, s.BareLatency.P50), ratio(s.Latency.P99, s.BareLatency.P99), ratio(s.Latency.P999, s.BareLatency.P999))
		p("%-28s %9.2f cores", "broker CPU", s.Latency.Cores)
	}
	if s.Throughput.MBps > 0 {
		p("")
		p("one partition, 64 KiB batches, 4 clients, acks=all")
		p("%-28s %9.0f MB/s, broker CPU %.1f s/GB", "broker", s.Throughput.MBps, s.Throughput.CPUPerGB)
		p("%-28s %9.0f MB/s", "bare 1 MiB + fdatasync", s.BareMBps)
		p("%-28s %9s", "ratio", ratio(s.Throughput.MBps, s.BareMBps))
	}
	if s.Idle.Fresh > 0 {
		p("")
		p("%-28s %9.0f MiB resident, %.0f MiB on disk", "idle, fresh", s.Idle.Fresh, s.Idle.DiskMiB)
		if s.Idle.AfterLoad > 0 {
			p("%-28s %9.0f MiB resident", "idle, after the load", s.Idle.AfterLoad)
		}
	}
	p("")
	p("%-28s %9.2f s", "start, empty", s.Start.Empty)
	if s.Start.AfterKill > 0 {
		p("%-28s %9.2f s until it answers, %.2f s until every partition tells its end", fmt.Sprintf("start, killed after %d MiB", o.recoverMiB), s.Start.AfterKill, s.Start.AfterKillAll)
	}
	return b.String()
}

// limits are what only a broken broker misses, on any machine: a fixed floor, or
// what the bare disk did in the same run where that was slow. What was asked for
// must have been measured.
func limits(o options, s result) error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if o.wants("latency") {
		p50, p99 := max(100, 20*s.BareLatency.P50), max(2000, 20*s.BareLatency.P99)
		check(s.Latency.P50 > 0 && s.Latency.P50 < p50, "p50 of %.1f ms, limit %.0f", s.Latency.P50, p50)
		check(s.Latency.P99 > 0 && s.Latency.P99 < p99, "p99 of %.1f ms, limit %.0f", s.Latency.P99, p99)
		check(s.Latency.Achieved > float64(o.rate)/2, "%.0f answers/s to %d requests/s, limit half of them", s.Latency.Achieved, o.rate)
		check(s.Latency.Cores < 1.5, "%.2f cores for %d requests/s, limit 1.5", s.Latency.Cores, o.rate)
	}
	if o.wants("throughput") {
		least := min(20, s.BareMBps/50)
		check(s.Throughput.MBps > least, "%.1f MB/s, limit %.1f", s.Throughput.MBps, least)
	}
	if o.wants("idle") {
		check(s.Idle.Fresh > 0 && s.Idle.Fresh < 256, "%.0f MiB resident when idle, limit 256", s.Idle.Fresh)
		check(s.Idle.AfterLoad < 2048, "%.0f MiB resident after the load, limit 2048", s.Idle.AfterLoad)
		check(s.Idle.DiskMiB < 200, "%.0f MiB on disk when idle, limit 200", s.Idle.DiskMiB)
	}
	check(s.Start.Empty > 0 && s.Start.Empty < 5, "%.1f s to start, limit 5", s.Start.Empty)
	if o.wants("start") {
		check(s.Start.AfterKillAll > 0 && s.Start.AfterKillAll < 20, "%.1f s to start after SIGKILL, limit 20", s.Start.AfterKillAll)
	}
	return errors.Join(errs...)
}
