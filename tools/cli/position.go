package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

type positionKind uint8

const (
	atStart positionKind = iota
	atEnd
	atOffset  // n
	beforeEnd // n records before the end
	atTime    // n is in milliseconds
)

// position is a place in a partition as a user writes it.
type position struct {
	kind positionKind
	n    int64
}

const positionHelp = "start, end, an offset, -N (N records before the end) or @TIME"

// timeHelp says how TIME is written.
const timeHelp = "TIME is 2006-01-02T15:04:05Z, \"2006-01-02 15:04:05\" or 2006-01-02 (local time),\nmilliseconds since 1970, or a span before now such as -90m or -36h."

func parsePosition(flag, s string, now time.Time) (position, error) {
	bad := func(why string) (position, error) {
		return position{}, usagef("%s: %q is %s; write %s", flag, s, why, positionHelp).hint("%s", timeHelp)
	}
	switch strings.ToLower(s) {
	case "start", "beginning", "earliest":
		return position{kind: atStart}, nil
	case "end", "latest":
		return position{kind: atEnd}, nil
	case "":
		return bad("empty")
	}
	if t, ok := strings.CutPrefix(s, "@"); ok {
		ms, err := parseTime(t, now)
		if err != nil {
			return bad("no time")
		}
		return position{kind: atTime, n: ms}, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil, n == math.MinInt64:
		return bad("no position")
	case n < 0:
		return position{kind: beforeEnd, n: -n}, nil
	}
	return position{kind: atOffset, n: n}, nil
}

// parseTime returns milliseconds since 1970.
func parseTime(s string, now time.Time) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		if d > 0 {
			d = -d
		}
		return now.Add(d).UnixMilli(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time", s)
}

// bounds are the offsets [start, end) that the partitions of some topics hold.
type bounds struct{ start, end kadm.ListedOffsets }

func (s *session) bounds(ctx context.Context, topics ...string) (bounds, error) {
	var b bounds
	if len(topics) == 0 {
		return b, nil
	}
	var err error
	if b.start, err = s.listed(s.adm.ListStartOffsets(ctx, topics...)); err != nil {
		return b, err
	}
	b.end, err = s.listed(s.adm.ListEndOffsets(ctx, topics...))
	return b, err
}

// listed fails on the first partition that could not be listed.
func (s *session) listed(l kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err != nil {
		return nil, err
	}
	for _, t := range sortedKeys(l) {
		for _, p := range sortedKeys(l[t]) {
			if e := l[t][p].Err; e != nil {
				what := fmt.Sprintf("topic %q, partition %d", t, p)
				if p < 0 {
					what = fmt.Sprintf("topic %q", t)
				}
				return nil, explainErr(what, e, "")
			}
		}
	}
	return l, nil
}

// resolve turns a position into an offset of each partition of a topic, within
// what the partition holds.
func (s *session) resolve(ctx context.Context, pos position, b bounds, topic string) (map[int32]int64, error) {
	out := make(map[int32]int64)
	var at kadm.ListedOffsets
	if pos.kind == atTime {
		var err error
		if at, err = s.listed(s.adm.ListOffsetsAfterMilli(ctx, pos.n, topic)); err != nil {
			return nil, err
		}
	}
	for p, l := range b.start[topic] {
		start, end := l.Offset, b.end[topic][p].Offset
		var o int64
		switch pos.kind {
		case atStart:
			o = start
		case atEnd:
			o = end
		case beforeEnd:
			o = end - pos.n
		case atOffset:
			o = pos.n
		case atTime:
			o = at[topic][p].Offset
		}
		out[p] = min(max(o, start), end)
	}
	return out, nil
}

func sortedKeys[K int32 | string | int16, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// partitionsMax bounds a list of partitions.
const partitionsMax = 100_000

// parsePartitions reads "0,2,5-7".
func parsePartitions(flag, s string) ([]int32, error) {
	var out []int32
	for _, part := range strings.Split(s, ",") {
		lo, hi, span := strings.Cut(strings.TrimSpace(part), "-")
		if !span {
			hi = lo
		}
		a, err1 := strconv.ParseInt(lo, 10, 32)
		b, err2 := strconv.ParseInt(hi, 10, 32)
		if err1 != nil || err2 != nil || a < 0 || b < a || b-a >= int64(partitionsMax-len(out)) {
			return nil, usagef("%s: %q is no list of partitions", flag, s).hint("Write numbers and spans, for example 0,2,5-7.")
		}
		for n := a; n <= b; n++ {
			out = append(out, int32(n))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
