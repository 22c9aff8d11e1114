package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	progressAfter = 2 * time.Second
	progressEvery = time.Second
)

// progress writes a line on stderr about what takes longer than two seconds. It
// runs in its own goroutine until stop.
type progress struct {
	out      io.Writer
	terminal bool
	done     chan struct{}
	wg       sync.WaitGroup

	mu struct {
		sync.Mutex
		what func() string // nil: nothing to say
	}
}

// startProgress is silent unless stderr is a terminal or --progress is given.
func startProgress(s *session) *progress {
	p := &progress{out: s.err, terminal: isTerminal(s.err), done: make(chan struct{})}
	if p.terminal || s.opts.progress {
		p.wg.Add(1)
		go p.run(time.Now())
	}
	return p
}

// say sets what the next lines tell; nil silences them. what is called from the
// progress goroutine.
func (p *progress) say(what func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.what = what
}

func (p *progress) stop() {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	p.wg.Wait()
}

func (p *progress) run(start time.Time) {
	defer p.wg.Done()
	wrote := false
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	for {
		select {
		case <-p.done:
			if wrote && p.terminal {
				fmt.Fprint(p.out, "\r\x1b[K")
			}
			return
		case <-wait.C:
			wait.Reset(progressEvery)
		}
		p.mu.Lock()
		what := p.mu.what
		p.mu.Unlock()
		if what == nil {
			continue
		}
		line := fmt.Sprintf("%s (%.0fs)", what(), time.Since(start).Seconds())
		if p.terminal {
			fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		} else {
			fmt.Fprintln(p.out, line)
		}
		wrote = true
	}
}

// isTerminal says whether v is a character device other than the null device.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(st, null)
}
