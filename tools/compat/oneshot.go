package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"millrace/bench/peers"
)

// A one-shot driver is started for one scenario, with the scenario's arguments,
// and ends with the line `ok` or `fail: reason`; see clients/python/scenarios.py.
// Kafka's command-line tools are driven so.
type oneShotScenario struct {
	name, driver string
	// prepare makes the topics and returns the driver's arguments beside --topic
	// and --group; verify looks at the broker once the driver has said ok.
	prepare func(ctx context.Context, s *suite, c client, topic string) ([]string, error)
	verify  func(ctx context.Context, s *suite, c client, topic, group string) error
}

const producing = "none gzip snappy lz4 zstd idempotent"

var toolTable = []client{
	{name: "kafka-topics", needs: "java", command: plainPython("kafkatools.py", "topics"),
		cannot: without(producing+" consume group seek restart", "an admin tool")},
	{name: "java-console", needs: "java", command: plainPython("kafkatools.py", "console"),
		cannot: without("create delete seek", "no such option")},
	{name: "java-perf", needs: "java", command: plainPython("kafkatools.py", "perf"), ownValues: true,
		cannot: without("create delete consume group seek restart", "a load generator")},
	{name: "java-groups", needs: "java", command: plainPython("kafkatools.py", "groups"), deletesGroup: true,
		cannot: without("create delete consume restart "+producing, "an admin tool")},
}

const (
	seekCount = 100
	seekFirst = 57
	moreCount = 100 // records that an `ask more` brings
)

var toolScenarios = oneShots()

func oneShots() []scenario {
	var out []scenario
	for _, sc := range oneShotTable {
		out = append(out, scenario{name: sc.name, restarts: sc.driver == "restart", run: sc.run})
	}
	return out
}

var oneShotTable = []oneShotScenario{
	{name: "create", driver: "create", prepare: nothing, verify: verifyCreated},
	oneShotProduce("none"), oneShotProduce("gzip"), oneShotProduce("snappy"), oneShotProduce("lz4"), oneShotProduce("zstd"),
	{name: "idempotent", driver: "idempotent", verify: verifyIdempotent,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return []string{"--count", strconv.Itoa(produceCount)}, s.create(ctx, 1, nil, topic)
		}},
	{name: "consume", driver: "consume", verify: nothingMore,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return []string{"--count", strconv.Itoa(sharedCount)}, s.fillEveryCodec(ctx, topic, sharedCount)
		}},
	{name: "group", driver: "group", verify: verifyGroup,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return nil, s.create(ctx, 4, nil, topic)
		}},
	{name: "seek", driver: "seek", prepare: prepareSeek, verify: nothingMore},
	{name: "delete", driver: "delete", verify: verifyDeleted,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return nil, s.create(ctx, 1, nil, topic)
		}},
	{name: "restart", driver: "restart", verify: nothingMore,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return nil, s.create(ctx, 2, nil, topic)
		}},
}

func oneShotProduce(codec string) oneShotScenario {
	return oneShotScenario{name: codec, driver: "produce",
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return []string{"--codec", codec, "--count", strconv.Itoa(produceCount)}, s.create(ctx, 1, nil, withAcks(topic)...)
		},
		verify: func(ctx context.Context, s *suite, c client, topic, _ string) error {
			for i, t := range withAcks(topic) {
				got, err := s.read(ctx, t, produceCount)
				if err != nil {
					return fmt.Errorf("acks=%s: %w", acksTable[i], err)
				}
				for j, r := range got {
					if !c.ownValues && (string(r.Key) != key(j) || string(r.Value) != value(j)) {
						return fmt.Errorf("acks=%s: record %d is %.12q", acksTable[i], j, r.Value)
					}
					if have := codecNames[r.Attrs.CompressionType()]; have != codec {
						return fmt.Errorf("acks=%s: record %d is in codec %s", acksTable[i], j, have)
					}
				}
			}
			return nil
		}}
}

func nothing(context.Context, *suite, client, string) ([]string, error) { return nil, nil }

func nothingMore(context.Context, *suite, client, string, string) error { return nil }

// prepareSeek writes records a second apart in batches of ten and asks for a
// time between two records of one batch.
func prepareSeek(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := s.fillTimed(ctx, topic, seekCount, 10, base, millisecondsPerRecord*time.Millisecond); err != nil {
		return nil, err
	}
	at := base.UnixMilli() + seekFirst*millisecondsPerRecord - millisecondsPerRecord/2
	return []string{"--count", strconv.Itoa(seekCount), "--first", strconv.Itoa(seekFirst), "--timestamp", strconv.FormatInt(at, 10)}, nil
}

func verifyCreated(ctx context.Context, s *suite, c client, topic, _ string) error {
	return s.awaitPartitions(ctx, topic, func(n int) bool { return n == 3 || c.autoCreates && n > 0 })
}

func verifyDeleted(ctx context.Context, s *suite, _ client, topic, _ string) error {
	return s.awaitPartitions(ctx, topic, func(n int) bool { return n == 0 })
}

// awaitPartitions gives metadata ten seconds to show what it should.
func (s *suite) awaitPartitions(ctx context.Context, topic string, right func(int) bool) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		n, err := s.partitions(ctx, topic)
		if err != nil || right(n) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("metadata shows %d partitions after 10 s", n)
		}
	}
}

func verifyIdempotent(ctx context.Context, s *suite, c client, topic, _ string) error {
	got, err := s.read(ctx, topic, produceCount)
	if err != nil {
		return err
	}
	for i, r := range got {
		if !c.ownValues && string(r.Value) != value(i) {
			return fmt.Errorf("record %d is %.12q", i, r.Value)
		}
		if r.ProducerID < 0 {
			return fmt.Errorf("record %d carries no producer ID", i)
		}
	}
	return nil
}

// verifyGroup: three hundred records were consumed, so the group's committed
// offsets add up to that.
func verifyGroup(ctx context.Context, s *suite, c client, topic, group string) error {
	if c.deletesGroup {
		return nil
	}
	sum, err := s.committed(ctx, group, topic)
	if err != nil {
		return err
	}
	if want := int64(3 * moreCount); sum != want {
		return fmt.Errorf("committed offsets add up to %d, want %d", sum, want)
	}
	return nil
}

func (sc oneShotScenario) run(t *trial) {
	args, err := sc.prepare(t.ctx, t.s, t.c, t.topic)
	if t.check(err, "prepare"); t.err != nil {
		return
	}
	args = append([]string{"--brokers", t.s.target.brokers, "--scenario", sc.driver, "--topic", t.topic, "--group", t.group}, args...)
	log := filepath.Join(t.s.logs, t.c.name+"-"+sc.name+".log")
	if t.err = t.s.drive(t.ctx, log, append(t.c.command(t.s.in), args...), t.topic); t.err == nil {
		t.check(sc.verify(t.ctx, t.s, t.c, t.topic, t.group), "the client is content, but")
	}
}

// drive runs the driver, answers what it asks, and returns its verdict.
func (s *suite) drive(ctx context.Context, logPath string, command []string, topic string) error {
	log, err := os.Create(logPath)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = s.in.env()
	cmd.Stderr = log
	in, out, err := peers.StartTalking(cmd)
	if err != nil {
		return err
	}
	// The whole group: drivers of command-line tools have children.
	killGroup := func() { peers.KillGroup(cmd) }
	defer killGroup()
	defer context.AfterFunc(ctx, killGroup)()
	verdict := s.converse(ctx, out, in, log, topic)
	waitErr := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("not done within %v (%s)", s.limit, verdict)
	case verdict == "ok":
		return waitErr
	case strings.HasPrefix(verdict, "fail: "):
		return errors.New(strings.TrimPrefix(verdict, "fail: "))
	}
	return fmt.Errorf("the driver ended without a verdict (%v), last line %q", waitErr, verdict)
}

// converse returns the last line of the driver's output.
func (s *suite) converse(ctx context.Context, out io.Reader, in io.Writer, log io.Writer, topic string) string {
	last, rounds := "", 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		last = lines.Text()
		fmt.Fprintln(log, last)
		var err error
		switch last {
		case "ask more":
			err = s.more(ctx, topic, rounds)
			rounds++
		case "ask restart":
			err = s.barrier.restart(ctx)
		default:
			continue
		}
		answer := "done"
		if err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(log, answer)
		if _, err := fmt.Fprintln(in, answer); err != nil {
			return "the driver no longer listens: " + err.Error()
		}
	}
	return last
}
