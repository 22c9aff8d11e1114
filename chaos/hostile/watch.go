package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// watcher is the bystander and its reference as the runner sees them: two
// processes, which are this program with another first argument.
type watcher struct {
	reference, bystander *exec.Cmd
	in                   io.WriteCloser
	out                  *bufio.Scanner
}

// Arguments that make this program another.
const (
	bystanderArg = "bystander"
	referenceArg = "reference"
)

// roles runs such a process; false: the arguments are the runner's.
func roles(args []string) (bool, error) {
	switch {
	case len(args) == 3 && args[0] == bystanderArg:
		return true, bystanderMain(args[1], args[2])
	case len(args) == 2 && args[0] == referenceArg:
		return true, referenceMain(args[1])
	}
	return false, nil
}

func startWatcher(dir, addr string) (*watcher, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &watcher{reference: exec.Command(self, referenceArg, filepath.Join(dir, "reference"))}
	w.reference.Stderr = os.Stderr
	out, err := w.reference.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.reference.Start(); err != nil {
		return nil, err
	}
	at, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the reference does not start: %w", err), w.kill())
	}
	w.bystander = exec.Command(self, bystanderArg, addr, at[:len(at)-1])
	w.bystander.Stderr = os.Stderr
	if w.in, err = w.bystander.StdinPipe(); err != nil {
		return nil, errors.Join(err, w.kill())
	}
	if out, err = w.bystander.StdoutPipe(); err != nil {
		return nil, errors.Join(err, w.kill())
	}
	w.out = bufio.NewScanner(out)
	w.out.Buffer(nil, 1<<20)
	if err := w.bystander.Start(); err != nil {
		return nil, errors.Join(err, w.kill())
	}
	if _, err := w.read(); err != nil {
		return nil, errors.Join(err, w.kill())
	}
	return w, nil
}

// ask sends a line and gives the answer.
func (w *watcher) ask(line string) (Window, error) {
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		return Window{}, fmt.Errorf("the bystander has ended: %w", err)
	}
	return w.read()
}

func (w *watcher) read() (Window, error) {
	var a Window
	if !w.out.Scan() {
		return a, errors.Join(errors.New("the bystander has ended"), w.out.Err())
	}
	return a, json.Unmarshal(w.out.Bytes(), &a)
}

// rest waits until nothing of the bystander's waits for long any more: what the last
// attack did is over.
func (w *watcher) rest(ctx context.Context) error {
	began := time.Now()
	for ctx.Err() == nil {
		a, err := w.ask("window")
		if err != nil {
			return err
		}
		if a.OldestWaiting < restMax {
			return nil
		}
		if time.Since(began) > restWait {
			return fmt.Errorf("the bystander waits %v for an acknowledgement, with nothing else going on", a.OldestWaiting)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ctx.Err()
}

const (
	restMax  = 200 * time.Millisecond
	restWait = 2 * time.Minute // the machine may stand still too
	// standstillMax is how long the bystander may wait for one acknowledgement.
	standstillMax = 20 * time.Second
)

// finish ends both processes and says what went wrong.
func (w *watcher) finish() error {
	a, err := w.ask("finish")
	if err == nil {
		fmt.Printf("bystander: %d records acknowledged, %d read\n", a.Acked, a.Read)
		for _, text := range a.Errors {
			err = errors.Join(err, errors.New(text))
		}
	}
	err = errors.Join(err, w.in.Close(), w.bystander.Wait())
	w.bystander = nil
	return errors.Join(err, w.kill())
}

func (w *watcher) kill() (err error) {
	for _, c := range []*exec.Cmd{w.reference, w.bystander} {
		if c == nil || c.Process == nil {
			continue
		}
		err = errors.Join(err, c.Process.Kill())
		_ = c.Wait() // it was killed
	}
	return err
}

// referenceMain is the process that the broker is compared with. It ends with its
// parent.
func referenceMain(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	const size = 1 << 20 // written again and again, as a journal is
	if _, err := f.Write(make([]byte, size)); err != nil {
		return err
	}
	b := make([]byte, bystanderBytes)
	for at := int64(0); ; at = (at + bystanderBytes) % size {
		if _, err := io.ReadFull(c, b); err != nil {
			return nil // the bystander is done
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if _, err := c.Write(b[:1]); err != nil {
			return nil
		}
	}
}

func dialReference(addr string) (*reference, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &reference{conn: c}, nil
}
