package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// trial is what a cell works with. Its checks end the cell at the first that
// fails, as those of package testing do.
type trial struct {
	// Immutable.
	java    *jvm
	broker  string
	dataDir string
	ours    bool   // the broker is Millrace
	dir     string // for files that tools read
	adm     *kadm.Client

	prefix string // of the names of topics and groups of this cell
	ctx    context.Context
	calls  int
}

// failure is what a check panics with.
type failure struct{ text string }

// try runs a cell and returns the first check that failed.
func (t *trial) try(ctx context.Context, limit time.Duration, c cell) (calls int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.ctx, t.calls = ctx, 0
	defer func() {
		calls = t.calls
		if v := recover(); v != nil {
			f, ok := v.(failure)
			if !ok {
				panic(v)
			}
			err = fmt.Errorf("%s", f.text)
		}
	}()
	c.run(t)
	return 0, nil
}

func (t *trial) failf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (t *trial) must(err error) {
	if err != nil {
		t.failf("%v", err)
	}
}

// run runs a tool with --bootstrap-server.
func (t *trial) run(tool string, args ...string) result {
	return t.runPlain(tool, append([]string{"--bootstrap-server", t.broker}, args...)...)
}

func (t *trial) runPlain(tool string, args ...string) result {
	t.calls++
	r, err := t.java.run(t.ctx, tool, args...)
	t.must(err)
	return r
}

// says checks the exit status and that the output holds every pattern, in any
// order. Runs of blanks count as one.
func (t *trial) says(r result, exit int, patterns ...string) string {
	text := r.text()
	if r.exit != exit {
		t.failf("%s ended with %d, want %d: %.400s", r.command(), r.exit, exit, text)
	}
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(text) {
			t.failf("%s does not say %q: %.600s", r.command(), p, text)
		}
	}
	return text
}

// silentOn checks that the output does not match.
func (t *trial) silentOn(r result, patterns ...string) {
	for _, p := range patterns {
		if m := regexp.MustCompile(`(?m)` + p).FindString(r.text()); m != "" {
			t.failf("%s says %q", r.command(), m)
		}
	}
}

var (
	blanks = regexp.MustCompile(`[ \t]+`)
	ending = regexp.MustCompile(`(?m)^\s*(Driver\$Ended: )?exit \d+$\n?`) // printed by Kafka's Exit
)

func (r result) text() string {
	return ending.ReplaceAllString(blanks.ReplaceAllString(r.out+"\n"+r.err, " "), "")
}

func (r result) command() string {
	args := r.args
	if len(args) > 2 && args[0] == "--bootstrap-server" {
		args = args[2:]
	}
	return r.tool + " " + strings.Join(args, " ")
}

// table reads the printed table whose heading starts with first, by column.
func (t *trial) table(r result, first string) []map[string]string {
	var heads []string
	var rows []map[string]string
	for line := range strings.SplitSeq(r.text(), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			if len(rows) > 0 {
				return rows
			}
		case heads == nil:
			if words[0] == first {
				heads = words
			}
		case len(words) == len(heads):
			row := map[string]string{}
			for i, h := range heads {
				row[h] = words[i]
			}
			rows = append(rows, row)
		}
	}
	if heads == nil {
		t.failf("%s prints no table that starts with %s: %.400s", r.command(), first, r.text())
	}
	return rows
}

func (t *trial) file(name, text string) string {
	path := filepath.Join(t.dir, name)
	t.must(os.WriteFile(path, []byte(text), 0o644))
	return path
}

// topic makes a topic and fills each partition with count records, the i-th of
// them i seconds after base, and returns its name.
func (t *trial) topic(name string, partitions, count int, base time.Time) string {
	name = t.prefix + name
	r, err := t.adm.CreateTopics(t.ctx, int32(partitions), 1, nil, name)
	t.must(err)
	t.must(r[name].Err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	t.must(err)
	defer cl.Close()
	var records []*kgo.Record
	for p := range partitions {
		for i := range count {
			records = append(records, &kgo.Record{Topic: name, Partition: int32(p), Value: []byte(strings.Repeat("v", 100)),
				Timestamp: base.Add(time.Duration(i) * time.Second)})
		}
	}
	t.must(cl.ProduceSync(t.ctx, records...).FirstErr())
	return name
}

// eventually gives something half a minute to become right.
func (t *trial) eventually(what string, right func() bool) {
	for end := time.Now().Add(30 * time.Second); !right(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.failf("%s not within 30 s", what)
		}
	}
}
