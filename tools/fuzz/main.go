// Command fuzz runs the fuzz targets of the module and tells what each has
// reached: executions, inputs that were new, and how much of the parser that the
// target is for its corpus covers.
//
//	go run ./tools/fuzz -time 10m -parallel 1
//	go run ./tools/fuzz -time 0              coverage of the corpora as they are
//	go run ./tools/fuzz -time 0 -keep        commits what adds coverage
//
// A target says in its comment which functions it is for:
//
//	//fuzz:parses frame.go:parseFrameHeader,verifyFrame scan.go
//
// A file is relative to the target's package, or to the module where it begins
// with a slash; without names all of the file counts. A target without this line,
// a name that no file has, and a package that does not build end the run. Corpora
// are those of testdata/fuzz and of Go's cache. The program works on one goroutine
// and blocks on the go command. Read run first.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"
)

// options are the flags.
type options struct {
	time     time.Duration
	parallel int
	match    *regexp.Regexp
	keep     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := parseFlags(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func parseFlags(ctx context.Context, args []string) error {
	var o options
	var match string
	f := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	f.DurationVar(&o.time, "time", 10*time.Second, "time for each target; 0 only measures")
	f.IntVar(&o.parallel, "parallel", 0, "processes for each target (default: as many as there are cores)")
	f.StringVar(&match, "run", "", "only targets whose PACKAGE.NAME matches this `expression`")
	f.BoolVar(&o.keep, "keep", false, "copy the inputs of the cache that add coverage to testdata/fuzz")
	if err := f.Parse(args); err != nil {
		return err
	}
	var err error
	if o.match, err = regexp.Compile(match); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	return run(ctx, o)
}

// result is a row of the table.
type result struct {
	target   *target
	fuzzed   fuzzed
	inputs   int // committed and cached
	coverage coverage
}

// run finds the targets, fuzzes each, measures each and prints the table. The
// first crash ends it; its input is where the go command has put it.
func run(ctx context.Context, o options) error {
	all, err := findTargets(ctx)
	if err != nil {
		return err
	}
	var results []result
	for _, t := range all {
		if !o.match.MatchString(t.name()) {
			continue
		}
		r := result{target: t}
		if o.time > 0 {
			if r.fuzzed, err = t.fuzz(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", t.name(), err)
			}
		}
		if err := r.measure(ctx, o.keep); err != nil {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return fmt.Errorf("no target of %d matches %q", len(all), o.match)
	}
	printTable(results)
	return nil
}

func printTable(results []result) {
	fmt.Printf("\n%-42s %12s %6s %7s  %s\n", "target", "executions", "new", "inputs", "coverage of what it parses")
	for _, r := range results {
		fmt.Printf("%-42s %12d %6d %7d  %s\n", r.target.name(), r.fuzzed.execs, r.fuzzed.found, r.inputs, r.coverage)
	}
	fmt.Printf("%d fuzz targets, no crash\n", len(results))
}
