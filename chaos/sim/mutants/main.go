// Command mutants plays simulation seeds against known-bad variants of the broker
// and shows which seed finds each of them.
//
//	go run -tags mutants ./chaos/sim/mutants
//
// It runs one variant after the other, each on -j workers; nothing here is
// durable. It exits with status 1 when a variant outlives the seeds that it is
// allowed, or when the broker as it should be, played as the control, does not
// pass. Read table first.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"text/tabwriter"
	"time"

	"millrace/core/mutant"
)

func main() {
	debug.SetGCPercent(400)
	only := flag.String("only", "", "run this variant alone")
	on := flag.String("layer", "", "play this layer, node or log, whatever the table says")
	seeds := flag.Uint64("seeds", 0, "seeds allowed, whatever the table says")
	from := flag.Uint64("from", 1, "first seed")
	workers := flag.Int("j", 2, "seeds played at a time")
	controlNode := flag.Uint64("control", 300, "seeds of the control's node layer, and twice as many of its log layer")
	flag.Parse()
	if !mutant.Built {
		fmt.Fprintln(os.Stderr, "there are no mutants in this program: run it with -tags mutants")
		os.Exit(2)
	}
	rows := table
	if *only != "" {
		rows = nil
		for _, r := range table {
			if r.id.Name() == *only {
				rows = append(rows, r)
			}
		}
		if len(rows) == 0 {
			fmt.Fprintf(os.Stderr, "the table has no mutant %q\n", *only)
			os.Exit(2)
		}
	}
	if *only == "" {
		for _, l := range []layer{node, log} {
			n := *controlNode
			if l == log {
				n *= 2
			}
			rows = append(rows, row{mutant.None, l, n})
		}
	}
	for i := range rows {
		if *on != "" {
			rows[i].layer = layer(*on)
		}
		if *seeds > 0 {
			rows[i].seeds = *seeds
		}
	}
	os.Exit(run(rows, *from, *workers))
}

// run prints a line per row and returns the exit status.
func run(rows []row, from uint64, workers int) int {
	began, survived, unclean := time.Now(), 0, 0
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "mutant\tlayer\tcaught by seed\tallowed\ttime\tviolation")
	for _, r := range rows {
		t := time.Now()
		k, caught := hunt(r, from, workers)
		line := fmt.Sprintf("%s\t%s\t%%s\t%d\t%.1fs\t%%s\n", r.id.Name(), r.layer, r.seeds, time.Since(t).Seconds())
		switch {
		case r.id == mutant.None && caught:
			unclean++
			fmt.Fprintf(out, line, fmt.Sprint(k.seed), "THE CONTROL FAILS: "+k.text)
		case r.id == mutant.None:
			fmt.Fprintf(out, line, "-", "none, as it should be")
		case caught:
			fmt.Fprintf(out, line, fmt.Sprint(k.seed), k.name+": "+k.text)
		default:
			survived++
			fmt.Fprintf(out, line, "-", "SURVIVED")
		}
		if err := out.Flush(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	fmt.Printf("%d rows in %.0fs: %d mutants survived, %d controls failed\n", len(rows), math.Round(time.Since(began).Seconds()), survived, unclean)
	if survived+unclean > 0 {
		return 1
	}
	return 0
}
