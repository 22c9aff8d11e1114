package main

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
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
