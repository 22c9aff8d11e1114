package main

import "time"

// patience is how long something is waited for. It counts only while this process
// runs: one that is stopped for a while, with the brokers, finds on its return that
// all limits of the clock are over, and would take that for silence.
type patience struct {
	over <-chan struct{}
	stop chan struct{}
}

// patienceStep is how often the time is counted. A ticker keeps one tick, however
// long nobody was there to take it.
const patienceStep = 10 * time.Millisecond

func newPatience(limit time.Duration) patience {
	over, stop := make(chan struct{}), make(chan struct{})
	go func() {
		t := time.NewTicker(patienceStep)
		defer t.Stop()
		for n := limit / patienceStep; n > 0; n-- {
			select {
			case <-t.C:
			case <-stop:
				return
			}
		}
		close(over)
	}()
	return patience{over, stop}
}

// end must be called once.
func (p patience) end() { close(p.stop) }

func (p patience) isOver() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}
