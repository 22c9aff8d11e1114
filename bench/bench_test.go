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
	good := result{Latency: latency{P50: 1, P99: 5, Achieved: 1000}, Throughput: throughput{MBps: 100}, Idle: idle{Fresh: 50, DiskMiB: 150}, Start: starts{Empty: 0.1}}
	if err := limits(good); err != nil {
		t.Errorf("a good result was refused: %v", err)
	}
	for name, spoil := range map[string]func(*result){
		"slow":   func(r *result) { r.Latency.P50 = 300 },
		"tail":   func(r *result) { r.Latency.P99 = 3000 },
		"weak":   func(r *result) { r.Throughput.MBps = 1 },
		"fat":    func(r *result) { r.Idle.Fresh = 1000 },
		"greedy": func(r *result) { r.Idle.DiskMiB = 900 },
		"sleepy": func(r *result) { r.Start.AfterKillAll = 60 },
	} {
		r := good
		spoil(&r)
		if limits(r) == nil {
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
