package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// chunk is how many sequences share the creation of their topics.
const chunk = 32

// session is one run of the command.
type session struct {
	// Immutable.
	o          options
	brokers    [2]broker
	advertised map[int16]versions
	known      *knownList
	count      *coverage
	begin      time.Time

	mu struct {
		sync.Mutex
		next      uint64 // seed
		sequences int
		diverged  int
		requests  int
		unstable  int // differences that were not seen again
		kinds     map[string]*kind
	}
}

// kind is a kind of difference.
type kind struct {
	signature string
	seeds     []uint64
}

func newSession(o options, brokers [2]broker, advertised map[int16]versions) *session {
	s := &session{
		o: o, brokers: brokers, advertised: advertised,
		known: newKnownList(knownDifferences()), count: newCoverage(advertised), begin: time.Now(),
	}
	s.mu.next = o.from
	s.mu.kinds = make(map[string]*kind)
	return s
}

func (s *session) newPair() *pair {
	p := &pair{known: s.known, count: s.count}
	for i, b := range s.brokers {
		p.sides[i] = &side{broker: b}
	}
	return p
}

// run works through the seeds.
func (s *session) run(ctx context.Context) error {
	var wait sync.WaitGroup
	errs := make([]error, s.o.workers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range s.o.workers {
		wait.Go(func() {
			if errs[i] = s.work(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// take generates the sequences of the next chunk.
func (s *session) take() (qs []*Sequence) {
	s.mu.Lock()
	begin := s.mu.next
	end := min(begin+chunk, s.o.from+s.o.seeds)
	s.mu.next = end
	s.mu.Unlock()
	for seed := begin; seed < end; seed++ {
		qs = append(qs, generate(seed, s.advertised))
	}
	return qs
}

func (s *session) work(ctx context.Context) error {
	p := s.newPair()
	defer func() {
		for _, side := range p.sides {
			side.closeAll()
		}
	}()
	for ctx.Err() == nil {
		qs := s.take()
		if len(qs) == 0 {
			return nil
		}
		all, err := p.prepare(qs)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := s.one(p, one); err != nil {
				return fmt.Errorf("seed %d: %w", one.q.Seed, err)
			}
			if ctx.Err() != nil {
				break
			}
		}
		if err := p.discard(all); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *session) one(p *pair, one prepared) error {
	if s.o.show {
		s.show(one.q)
	}
	res := p.run(one)
	if res.err != nil {
		return res.err
	}
	s.mu.Lock()
	s.mu.sequences++
	s.mu.requests += res.requests
	if res.diverged {
		s.mu.diverged++
	}
	n := s.mu.sequences
	s.mu.Unlock()
	if n%500 == 0 {
		fmt.Printf("%d sequences in %v\n", n, time.Since(s.begin).Round(time.Second))
	}
	if res.finding == nil {
		return nil
	}
	return s.found(p, one.q, res.finding)
}

func (s *session) show(q *Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Printf("seed %d, %s\n", q.Seed, q.Theme)
	for i := range q.Steps {
		fmt.Println("   ", strings.ReplaceAll(describeStep(&q.Steps[i]), prefixToken, "~"))
	}
}

// found shrinks the first difference of each kind and counts the others.
func (s *session) found(p *pair, q *Sequence, f *finding) error {
	sig := signature(q, f)
	s.mu.Lock()
	k := s.mu.kinds[sig]
	first := k == nil
	if first {
		k = &kind{signature: sig}
		s.mu.kinds[sig] = k
	}
	k.seeds = append(k.seeds, q.Seed)
	kinds := len(s.mu.kinds)
	s.mu.Unlock()
	if !first {
		return nil
	}
	small, at := q, f
	stable, err := s.repeats(p, q, sig)
	if err != nil {
		return err
	}
	if !stable {
		s.mu.Lock()
		s.mu.unstable++
		delete(s.mu.kinds, sig) // the next one has another chance
		s.mu.Unlock()
		fmt.Printf("not seen again, seed %d: %s\n%s\n", q.Seed, sig, describeFinding(q, f))
		return nil
	}
	if kinds <= s.o.shrink {
		small, at, err = shrink(q, f, func(c *Sequence) (*finding, error) { return p.again(c) })
	}
	text := fmt.Sprintf("difference %d, seed %d (%s): %s\n%s", kinds, q.Seed, q.Theme, sig, describeFinding(small, at))
	fmt.Println(text)
	return err
}

// repeats says whether a difference shows again in one of two more runs. What
// does not is a matter of time, not of the answer.
func (s *session) repeats(p *pair, q *Sequence, sig string) (bool, error) {
	for range 2 {
		f, err := p.again(q)
		if err != nil {
			return false, err
		}
		if f != nil && signature(q, f) == sig {
			return true, nil
		}
	}
	return false, nil
}

// again runs a sequence once more, with names of its own.
func (p *pair) again(q *Sequence) (*finding, error) {
	all, err := p.prepare([]*Sequence{q})
	if err != nil {
		return nil, err
	}
	res := p.run(all[0])
	if res.err != nil {
		return nil, res.err
	}
	return res.finding, p.discard(all)
}

// report prints the totals; its error says what makes the run a failure.
func (s *session) report() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.begin)
	text, missing := s.count.report()
	fmt.Print(text)
	fmt.Printf("%d sequences, %d requests to each broker in %v; %d sequences ended early at a known difference, %d differences were not seen again\n",
		s.mu.sequences, s.mu.requests, took.Round(time.Second), s.mu.diverged, s.mu.unstable)
	for i, n := range s.known.uses() {
		e := s.known.entries[i]
		state := fmt.Sprintf("seen %d times", n)
		if n == 0 {
			state = "STALE: not seen in this run"
		}
		fmt.Printf("known difference %q: %s\n", e.name, state)
	}
	var errs []error
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("never sent: %s", strings.Join(missing, ", ")))
	}
	kinds := make([]*kind, 0, len(s.mu.kinds))
	for _, k := range s.mu.kinds {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b *kind) int { return len(b.seeds) - len(a.seeds) })
	for _, k := range kinds {
		fmt.Printf("%6d times, first seed %d: %s\n", len(k.seeds), slices.Min(k.seeds), k.signature)
	}
	if len(kinds) > 0 {
		errs = append(errs, fmt.Errorf("%d kinds of difference that are not known", len(kinds)))
	}
	return errors.Join(errs...)
}
