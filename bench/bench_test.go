package main

import (
	"testing"
	"time"
	"unsafe"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// TestLatencyCountsFromTheIntendedTime: requests that were due during a stall
// count with the time that they waited for it.
func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	l := newLatencies()
	begin := time.Unix(100, 0)
	l.from = begin
	stallEnd := begin.Add(time.Second)
	for i := range 100 {
		l.record(begin.Add(time.Duration(i)*10*time.Millisecond), stallEnd)
	}
	l.record(begin.Add(-time.Millisecond), stallEnd) // warm-up
	r := l.result(time.Second)
	if r.P50 < 490 || r.P50 > 520 || r.Max < 990 || r.Achieved != 100 {
		t.Errorf("p50 %.0f ms, max %.0f ms, %.0f answers: want about 500, 1000 and 100", r.P50, r.Max, r.Achieved)
	}
}

func TestAlignedBlocksSuitDirectIO(t *testing.T) {
	for range 50 {
		b := aligned(blockBytes)
		if len(b) != blockBytes || uintptr(unsafe.Pointer(&b[0]))%blockBytes != 0 {
			t.Fatalf("%d bytes at %p", len(b), &b[0])
		}
	}
}

func TestLimitsRefuseABrokenBroker(t *testing.T) {
	o := options{rate: 1000, only: "latency,throughput,idle,start"}
	good := result{
		Latency: latency{P50: 1, P99: 5, Achieved: 1000, Cores: 0.2}, BareLatency: latency{P50: 1, P99: 4},
		Throughput: throughput{MBps: 100}, BareMBps: 800, Idle: idle{Fresh: 50, AfterLoad: 400, DiskMiB: 150},
		Start: starts{Empty: 0.1, AfterKill: 0.2, AfterKillAll: 0.3},
	}
	for name, vary := range map[string]func(*result){
		"good":                  func(*result) {},
		"slow on a slow disk":   func(r *result) { r.Latency.P50, r.BareLatency.P50 = 300, 40 },
		"a disk of a few bytes": func(r *result) { r.Throughput.MBps, r.BareMBps = 3, 40 },
	} {
		r := good
		vary(&r)
		if err := limits(o, r); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
	}
	for name, spoil := range map[string]func(*result){
		"slow":             func(r *result) { r.Latency.P50 = 300 },
		"tail":             func(r *result) { r.Latency.P99 = 3000 },
		"behind":           func(r *result) { r.Latency.Achieved = 400 },
		"no latency":       func(r *result) { r.Latency = latency{} },
		"busy":             func(r *result) { r.Latency.Cores = 1.9 },
		"weak":             func(r *result) { r.Throughput.MBps = 1 },
		"nothing got in":   func(r *result) { r.Throughput.MBps = 0 },
		"fat":              func(r *result) { r.Idle.Fresh = 1000 },
		"fat after a load": func(r *result) { r.Idle.AfterLoad = 5000 },
		"greedy":           func(r *result) { r.Idle.DiskMiB = 900 },
		"late":             func(r *result) { r.Start.Empty = 7 },
		"sleepy":           func(r *result) { r.Start.AfterKillAll = 60 },
		"never came back":  func(r *result) { r.Start.AfterKillAll = 0 },
	} {
		r := good
		spoil(&r)
		if limits(o, r) == nil {
			t.Errorf("%s: a broken broker passed", name)
		}
	}
}

func TestSummaryIsTheMedianOfTheRepeats(t *testing.T) {
	rs := []result{{BareMBps: 10, Start: starts{Empty: 1}}, {BareMBps: 30, Start: starts{Empty: 3}}, {BareMBps: 20, Start: starts{Empty: 2}}}
	if s := summarise(rs); s.BareMBps != 20 || s.Start.Empty != 2 {
		t.Errorf("summary %+v", s)
	}
}
