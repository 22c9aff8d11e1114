package main

import (
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds of the work on one difference.
const (
	shrinkRunsMax = 150
	shrinkTimeMax = 40 * time.Second
)

// signature names a kind of difference: the request, the field and what each
// side said, as far as that is short.
func signature(q *Sequence, f *finding) string {
	d := f.Differences[0]
	return kmsg.NameForKey(q.Steps[f.Step].Req.Key()) + " " + d.pattern() + ": " + sigValue(d.Kafka) + " / " + sigValue(d.Millrace)
}

func sigValue(s string) string {
	if len(s) > 30 {
		return s[:12] + "..."
	}
	return s
}

// tryFunc runs a candidate and gives its finding, nil for none.
type tryFunc func(q *Sequence) (*finding, error)

// shrinker cuts a sequence down while the same difference shows.
type shrinker struct {
	try      tryFunc
	sig      string
	best     *Sequence
	finding  *finding
	runs     int
	deadline time.Time
	err      error
}

// shrink returns the shortest sequence found that still shows the difference,
// with its finding.
func shrink(q *Sequence, f *finding, try tryFunc) (*Sequence, *finding, error) {
	s := &shrinker{try: try, sig: signature(q, f), best: q, finding: f, deadline: time.Now().Add(shrinkTimeMax)}
	s.accept(func(c *Sequence) bool { // nothing after the finding matters
		c.Steps = c.Steps[:f.Step+1]
		return true
	})
	for again := true; again && !s.over(); {
		again = s.dropSteps()
		again = s.dropElements() || again
		again = s.simplify() || again
	}
	s.dropTopics()
	return s.best, s.finding, s.err
}

func (s *shrinker) over() bool {
	return s.err != nil || s.runs >= shrinkRunsMax || time.Now().After(s.deadline)
}

// accept tries a change and keeps it when the difference is still there.
func (s *shrinker) accept(change func(c *Sequence) bool) bool {
	if s.over() {
		return false
	}
	c := s.best.clone()
	if !change(c) {
		return false
	}
	s.runs++
	f, err := s.try(c)
	if err != nil {
		s.err = err
		return false
	}
	if f == nil || signature(c, f) != s.sig {
		return false
	}
	s.best, s.finding = c, f
	return true
}

func (s *shrinker) dropSteps() (any bool) {
	for i := len(s.best.Steps) - 1; i >= 0; i-- {
		if s.accept(func(c *Sequence) bool {
			if i >= len(c.Steps) || len(c.Steps) == 1 {
				return false
			}
			c.Steps = slices.Delete(c.Steps, i, i+1)
			return true
		}) {
			any = true
		}
	}
	return any
}

// dropElements removes elements of arrays and mutations.
func (s *shrinker) dropElements() (any bool) {
	for i := range s.best.Steps {
		for m := len(s.best.Steps[i].Mutations) - 1; m >= 0; m-- {
			any = s.accept(func(c *Sequence) bool {
				c.Steps[i].Mutations = slices.Delete(c.Steps[i].Mutations, m, m+1)
				return true
			}) || any
		}
		for _, p := range places(s.best.Steps[i].Req) {
			if p.v.Kind() != reflect.Slice || p.v.Type().Elem().Kind() == reflect.Uint8 {
				continue
			}
			for e := p.v.Len() - 1; e >= 0; e-- {
				any = s.accept(func(c *Sequence) bool { return dropElement(c.Steps[i].Req, p.path, e) }) || any
			}
		}
	}
	return any
}

func dropElement(req kmsg.Request, path string, e int) bool {
	p, ok := find(req, path)
	if !ok || p.v.Kind() != reflect.Slice || e >= p.v.Len() {
		return false
	}
	p.v.Set(reflect.AppendSlice(p.v.Slice(0, e), p.v.Slice(e+1, p.v.Len())))
	return true
}

// simplify replaces record data by one plain record and optional fields by none.
func (s *shrinker) simplify() (any bool) {
	plain := plainBatch(1).encode()
	for i := range s.best.Steps {
		for _, p := range places(s.best.Steps[i].Req) {
			switch {
			case p.field == "Records" && string(p.v.Bytes()) != string(plain):
				any = s.accept(func(c *Sequence) bool { return setPlace(c.Steps[i].Req, p.path, reflect.ValueOf(plain)) }) || any
			case p.v.Kind() == reflect.Pointer && !p.v.IsNil():
				any = s.accept(func(c *Sequence) bool { return setPlace(c.Steps[i].Req, p.path, reflect.Zero(p.v.Type())) }) || any
			}
		}
	}
	return any
}

func setPlace(req kmsg.Request, path string, v reflect.Value) bool {
	p, ok := find(req, path)
	if ok && p.v.Type() == v.Type() {
		p.v.Set(deepCopy(v))
		return true
	}
	return false
}

func (s *shrinker) dropTopics() {
	for i := len(s.best.Topics) - 1; i >= 0; i-- {
		if s.accept(func(c *Sequence) bool {
			c.Topics = slices.Delete(c.Topics, i, i+1)
			return true
		}) {
			continue
		}
		s.accept(func(c *Sequence) bool {
			plain := c.Topics[i].Partitions == 1 && c.Topics[i].Configs == nil
			c.Topics[i].Partitions, c.Topics[i].Configs = 1, nil
			return !plain
		})
	}
}
