package main

import (
	"strings"
	"sync"
	"sync/atomic"

	"millrace/chaos/sim"
	"millrace/chaos/sim/logsim"
	"millrace/core/mutant"
)

// kill is what caught a mutant.
type kill struct {
	seed uint64
	name string // of the kind of violation
	text string
}

// hunt plays the seeds of a row from the first on, several at a time, until one
// finds something. The least such seed is told, however the workers raced.
func hunt(r row, from uint64, workers int) (kill, bool) {
	if err := mutant.Choose(r.id.Name()); err != nil {
		panic("BUG: " + err.Error())
	}
	var next, end atomic.Uint64
	next.Store(from)
	end.Store(from + r.seeds)
	var best struct {
		sync.Mutex
		kill
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= end.Load() {
					return
				}
				name, text := play(r.layer, seed)
				if name == "" {
					continue
				}
				best.Lock()
				if best.name == "" || seed < best.seed {
					best.kill = kill{seed, name, text}
					end.Store(seed)
				}
				best.Unlock()
			}
		})
	}
	wg.Wait()
	return best.kill, best.name != ""
}

// play plays one seed; name is empty when it finds nothing.
func play(l layer, seed uint64) (name, text string) {
	if l == log {
		_, err := logsim.Run(logsim.Config{Seed: seed, Kind: logsim.KindOf(seed)})
		if err == nil {
			return "", ""
		}
		return nameOf(err), firstLine(err.Error())
	}
	r := sim.Run(seed, sim.Options{})
	switch {
	case r.Err != nil:
		return nameOf(r.Err), firstLine(r.Err.Error())
	case len(r.Violations) > 0:
		v := r.Violations[0]
		return v.Kind, firstLine(v.Where + " " + v.Detail)
	}
	return "", ""
}

// nameOf sorts the errors that a harness finds itself.
func nameOf(err error) string {
	text := err.Error()
	for _, n := range []struct{ in, name string }{
		{"panic", "panic"}, {"hang:", "hang"}, {"refused to start", "no-start"}, {": open:", "no-start"}, {"damage", "false-damage"},
		{"is refused though nothing is damaged", "false-damage"}, {"is no state of", "other-state"},
	} {
		if strings.Contains(text, n.in) {
			return n.name
		}
	}
	return "wrong-answer"
}

const textMax = 150

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > textMax {
		s = s[:textMax] + "..."
	}
	return s
}
