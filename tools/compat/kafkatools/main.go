// Command kafkatools runs Apache Kafka's own command-line tools (kafka-tools 4.4)
// against a broker, through the options that people use, and checks what they
// print. It ends with 1 when a tool's cell is red.
//
// It starts a broker of ours (or, with --peer kafka, the reference, on which the
// same checks hold) and one JVM that runs the tools one after the other
// (Driver.java), since starting a JVM takes longer than most of them. All of it
// runs on the caller's goroutine but the members of the groups that are looked
// at. Nothing is kept but the log. Read main, then trial, then one cell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
)

type options struct {
	broker peers.Choice
	tools  string
	limit  time.Duration
}

func main() {
	var o options
	o.broker.Flags(flag.CommandLine, "test")
	flag.StringVar(&o.tools, "tools", "", "only these tools, comma-separated")
	flag.DurationVar(&o.limit, "limit", 2*time.Minute, "time limit of one tool's cell")
	flag.Parse()
	peers.Main("kafkatools", func(ctx context.Context) (bool, error) {
		red, err := run(ctx, o)
		return red == 0, err
	})
}

// cell checks one tool.
type cell struct {
	tool string
	run  func(t *trial)
}

var cells = []cell{
	{"kafka-topics", topicsCell},
	{"kafka-configs", configsCell},
	{"kafka-consumer-groups", groupsCell},
	{"kafka-get-offsets", getOffsetsCell},
	{"kafka-delete-records", deleteRecordsCell},
	{"kafka-log-dirs", logDirsCell},
	{"kafka-dump-log", dumpLogCell},
	{"kafka-broker-api-versions", apiVersionsCell},
	{"kafka-cluster", clusterCell},
	{"kafka-features", featuresCell},
	{"kafka-reassign-partitions", reassignCell},
	{"kafka-producer-perf-test", producerPerfCell},
	{"kafka-consumer-perf-test", consumerPerfCell},
	{"kafka-e2e-latency", endToEndCell},
	{"kafka-verifiable-producer", verifiableProducerCell},
	{"kafka-verifiable-consumer", verifiableConsumerCell},
	{"client-compatibility-test", clientCompatibilityCell},
}

func run(ctx context.Context, o options) (red int, err error) {
	root, err := peers.Root()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	dir := filepath.Join(root, "build", "kafkatools")
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "classes"), 0o755); err != nil {
		return 0, err
	}
	log, err := os.Create(filepath.Join(dir, "tools.log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	libs, err := peers.KafkaLibs("")
	if err != nil {
		return 0, err
	}
	java, err := newJVM(ctx, filepath.Join(root, "tools", "compat", "kafkatools"), libs, filepath.Join(dir, "classes"), log)
	if err != nil {
		return 0, err
	}
	broker, err := startBroker(ctx, o, filepath.Join(dir, "broker"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, broker.Stop(20*time.Second)) }()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	defer func() { err = errors.Join(err, java.close()) }()
	t := &trial{java: java, broker: broker.Addr(), dataDir: broker.DataDir(), ours: o.broker.Ours(), dir: dir, adm: kadm.NewClient(cl)}
	ran := 0
	for _, c := range cells {
		if o.tools != "" && !slices.Contains(strings.Split(o.tools, ","), c.tool) {
			continue
		}
		ran++
		from := time.Now()
		t.prefix = fmt.Sprintf("%s-%06x", c.tool, rand.IntN(1<<24))
		calls, failure := t.try(ctx, o.limit, c)
		state := "ok"
		if failure != nil {
			state = "FAIL"
			red++
		}
		fmt.Printf("%-26s %-4s %3d calls %5.1f s", c.tool, state, calls, time.Since(from).Seconds())
		if failure != nil {
			fmt.Printf("  %v", failure)
		}
		fmt.Println()
		if ctx.Err() != nil {
			return red, ctx.Err()
		}
	}
	if ran == 0 {
		return 0, fmt.Errorf("no tool is called %q", o.tools)
	}
	fmt.Printf("\n%d tools, %d red, %.0f s; what they printed is in %s\n", ran, red, time.Since(begin).Seconds(), log.Name())
	return red, nil
}

func startBroker(ctx context.Context, o options, dir string) (peers.Broker, error) {
	// Small appends go to a segment, so that there is one to dump.
	config := []string{"group.initial.rebalance.delay.ms=0", "journal.direct.bytes=4096"}
	return o.broker.Start(ctx, 3*time.Minute, peers.MillraceOptions{Dir: dir, Config: config}, peers.KafkaOptions{Dir: dir})
}
