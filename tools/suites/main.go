// Command suites runs the tests of client libraries that need a live broker,
// unmodified, and compares what they find with what the same tests find on
// Apache Kafka 4.4: a test that passes there passes here.
//
// It takes each suite's source from the Go module cache, builds its test
// binaries, starts a broker in a directory of its own (ours, or with --peer
// kafka the reference) and runs every top-level test as a process of its own, so
// that one panic or hang hides nothing else. expected/ holds what the reference
// gave (--peer kafka --record writes it), excluded/ the tests that need what is
// not served yet, each with the reason. It ends with 1 when a test that passes
// on the reference does not pass here, when an excluded one passes, or when one
// did not run. The caller's goroutine starts and judges; one goroutine per
// process waits for it. Nothing is kept but the output. Read run, then judge.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"millrace/bench/peers"
)

type options struct {
	broker        peers.Choice
	suites, tests string
	record        bool
	records, jobs int
	limit         time.Duration
}

func main() {
	var o options
	o.broker.Flags(flag.CommandLine, "test")
	flag.StringVar(&o.suites, "suites", "", "only these suites, comma-separated: "+strings.Join(suiteNames(), ", "))
	flag.StringVar(&o.tests, "run", "", "only these top-level tests, comma-separated; others are not judged")
	flag.BoolVar(&o.record, "record", false, "with --peer kafka: add this run to the expected results")
	flag.IntVar(&o.records, "records", 20000, "records that franz-go's group and transaction tests produce")
	flag.IntVar(&o.jobs, "jobs", 6, "tests that run at a time")
	flag.DurationVar(&o.limit, "limit", 4*time.Minute, "time limit of one test")
	flag.Parse()
	peers.Main("suites", func(ctx context.Context) (bool, error) { return run(ctx, o) })
}

// run is the whole program: build, start, run each suite, judge, print. It says
// whether all that is expected was found.
func run(ctx context.Context, o options) (good bool, err error) {
	if o.record && (o.broker.Peer != "kafka" || o.tests != "") {
		return false, errors.New("--record takes whole runs of --peer kafka only")
	}
	root, err := peers.Root()
	if err != nil {
		return false, err
	}
	chosen, err := pickSuites(o.suites)
	if err != nil {
		return false, err
	}
	begin := time.Now()
	dir := filepath.Join(root, "build", "suites")
	if err := os.RemoveAll(dir); err != nil {
		return false, err
	}
	var built []*buildOf
	for _, s := range chosen {
		b, err := build(ctx, s, dir)
		if err != nil {
			return false, fmt.Errorf("%s: %w", s.name, err)
		}
		built = append(built, b)
	}
	fmt.Printf("built in %.0f s\n", time.Since(begin).Seconds())
	broker, err := startBroker(ctx, o, filepath.Join(dir, "broker"))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, broker.Stop(30*time.Second)) }()
	var verdicts []*verdict
	for _, b := range built {
		v, err := runSuite(ctx, o, b, dir, root)
		if err != nil {
			return false, fmt.Errorf("%s: %w", b.suite.name, err)
		}
		verdicts = append(verdicts, v)
	}
	select {
	case <-broker.Exited():
		return false, fmt.Errorf("the broker ended during the tests; its output is in %s", broker.LogPath())
	default:
	}
	fmt.Print(render(verdicts, o.broker.Peer))
	fmt.Printf("%.0f s; output of the tests in %s\n", time.Since(begin).Seconds(), dir)
	good = true
	for _, v := range verdicts {
		good = good && v.good()
	}
	return good, nil
}

func runSuite(ctx context.Context, o options, b *buildOf, dir, root string) (*verdict, error) {
	begin := time.Now()
	lists := filepath.Join(root, "tools", "suites")
	want, err := readExpected(filepath.Join(lists, "expected", b.suite.name+".txt"))
	if err != nil && !(o.record && errors.Is(err, os.ErrNotExist)) {
		return nil, err
	}
	excluded, err := readExcluded(filepath.Join(lists, "excluded", b.suite.name+".txt"))
	if err != nil {
		return nil, err
	}
	if o.broker.Peer == "kafka" {
		excluded = nil // they are about us
	}
	pl := plan{again: want.mayPass, excluded: excluded}
	if o.record {
		pl.again = func(results) bool { return false } // every outcome is to be seen
	}
	found, err := b.run(ctx, o, filepath.Join(dir, b.suite.name+".log"), pl)
	if err != nil {
		return nil, err
	}
	if o.record {
		want = want.with(found)
		if err := want.write(filepath.Join(lists, "expected", b.suite.name+".txt"), b.suite); err != nil {
			return nil, err
		}
	}
	v := judge(want, excluded, found, namedTests(o.tests))
	v.suite, v.took = b.suite, time.Since(begin)
	return v, nil
}

// namedTests is the set of --run; nil: all.
func namedTests(list string) map[string]bool {
	if list == "" {
		return nil
	}
	set := map[string]bool{}
	for n := range strings.SplitSeq(list, ",") {
		set[n] = true
	}
	return set
}
