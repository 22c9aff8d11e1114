package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// suite runs cells against one broker.
type suite struct {
	// Immutable.
	target  target
	brokers []string
	in      *installer
	logs    string
	limit   time.Duration
	prefix  string
	cl      *kgo.Client
	adm     *kadm.Client
	barrier *barrier

	mu sync.Mutex // guards the cells of the tables
}

func newSuite(t target, in *installer, logs string, limit time.Duration) (*suite, error) {
	s := &suite{target: t, brokers: strings.Split(t.brokers, ","), in: in, logs: logs, limit: limit,
		prefix: fmt.Sprintf("compat-%06x", rand.IntN(1<<24))}
	return s, s.open()
}

func (s *suite) close() { s.adm.Close() }

// run fills the tables: first all cells that leave the broker alone, one client
// after the other in each of a number of lanes, then the ones with a restart all
// at once.
func (s *suite) run(ctx context.Context, tables []*table, failed map[string]error, lanes int) {
	var restarting []func()
	queue := make(chan func())
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for work := range queue {
				work()
			}
		})
	}
	for _, t := range tables {
		t.cell = map[string]map[string]cell{}
		if len(s.target.restarts) == 0 {
			t.scenarios = slices.DeleteFunc(slices.Clone(t.scenarios), func(sc scenario) bool { return sc.restarts })
		}
		for _, c := range t.clients {
			calm, rest := s.sort(t, c, failed)
			queue <- func() {
				l := &lane{}
				defer l.close((*driver).close)
				for _, sc := range calm {
					s.runCell(ctx, t, l, c, sc)
				}
			}
			for _, sc := range rest {
				restarting = append(restarting, func() {
					l := &lane{started: 100} // log names apart from those above
					defer l.close((*driver).close)
					s.runCell(ctx, t, l, c, sc)
				})
			}
		}
	}
	close(queue)
	wg.Wait()
	s.barrier = newBarrier(len(restarting), s.target.restarts)
	for _, work := range restarting {
		wg.Go(func() {
			work()
			s.barrier.leave(ctx)
		})
	}
	wg.Wait()
}

// sort settles the cells of a client that cannot run and returns the others.
func (s *suite) sort(t *table, c client, failed map[string]error) (calm, restarting []scenario) {
	t.cell[c.name] = map[string]cell{}
	for _, sc := range t.scenarios {
		reason, cannot := c.cannot[sc.name]
		switch err := failed[c.needs]; {
		case cannot:
			s.set(t, c, sc, cell{"-", reason})
		case err != nil:
			s.set(t, c, sc, cell{"FAIL", "not installed"})
		case sc.restarts:
			restarting = append(restarting, sc)
		default:
			calm = append(calm, sc)
		}
	}
	return calm, restarting
}

func (s *suite) set(t *table, c client, sc scenario, x cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.cell[c.name][sc.name] = x
}

// runCell runs one scenario with one client. After a failure the lane begins
// with new processes.
func (s *suite) runCell(ctx context.Context, tab *table, l *lane, c client, sc scenario) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	begin := time.Now()
	t := &trial{ctx: ctx, s: s, c: c, lane: l, topic: fmt.Sprintf("%s-%s-%s", s.prefix, c.name, sc.name)}
	t.group = t.topic + "-group"
	sc.run(t)
	took := time.Since(begin).Seconds()
	if t.err != nil {
		text := strings.ReplaceAll(t.err.Error(), s.prefix+"-"+c.name+"-", "")
		fmt.Printf("%-16s %-16s FAIL %5.1f s  %s\n", c.name, sc.name, took, text)
		s.set(tab, c, sc, cell{"FAIL", text})
		l.close((*driver).kill)
		return
	}
	fmt.Printf("%-16s %-16s ok   %5.1f s\n", c.name, sc.name, took)
	s.set(tab, c, sc, cell{"ok", ""})
}
