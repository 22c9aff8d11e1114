package main

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Batches fill up when much is sent that does not compress; none may be larger
// than what a topic takes without any setting.
func TestProduceCommandFillsNoBatchBeyondTheDefaultLimit(t *testing.T) {
	p := startProcess(t, t.TempDir())
	createTopic(t, client(t, p.kafka), "bulk", 1, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	var lines strings.Builder
	const n = 8000
	for i := range n {
		lines.WriteString(strconv.Itoa(i))
		for range 100 {
			lines.WriteString(strconv.FormatUint(rng.Uint64()|1<<63, 36))
		}
		lines.WriteByte('\n')
	}
	cmd := command("produce", "bulk", "--brokers", p.kafka)
	cmd.Stdin = strings.NewReader(lines.String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), strconv.Itoa(n)+" records acknowledged") {
		t.Fatalf("%v: %s", err, out)
	}
	p.stop()
}

// The outage is longer than a heartbeat's interval, so that the member loses its
// session.
func TestConsumeCommandInAGroupOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir)
	at := []string{"--brokers", p.kafka}
	cl := client(t, p.kafka)
	createTopic(t, cl, "orders", 1, nil)
	produce := func(text string) {
		t.Helper()
		cmd := command(append(at, "produce", "orders", "--quiet")...)
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	var errs bytes.Buffer
	cmd := command(append(at, "consume", "orders", "--group", "g", "--count", "2")...)
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	produce("first\n")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("%q, %v", line, err)
	}
	adm := kadm.NewClient(cl)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		committed, err := adm.FetchOffsets(t.Context(), "g")
		if o, ok := committed.Lookup("orders", 0); ok && o.At == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("committed: %v, %v", committed, err)
		}
	}
	p.kill()
	time.Sleep(4500 * time.Millisecond)
	p = startProcess(t, dir, "--set", "listeners=PLAINTEXT://"+p.kafka)
	produce("second\n")
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || string(rest) != "second\n" {
		t.Errorf("%v, read %q: %s", err, rest, errs.String())
	}
	p.stop()
}
