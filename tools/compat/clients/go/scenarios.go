// Command clients drives a broker with one of the Go clients that the
// compatibility suite covers: franz-go, sarama, segmentio/kafka-go.
//
// It is a module of its own so that the broker's module stays free of these
// clients. The scenarios, the arguments and the conversation with the runner are
// those of ../python/scenarios.py: the last line is `ok` or `fail: reason`.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

type message struct{ key, value string }

// client is what a scenario needs of a client. Every call gives up after a
// minute at the latest.
type client interface {
	create(topic string, partitions int) error
	// partitionCount is what metadata shows.
	partitionCount(topic string) (int, error)
	remove(topic string) error
	produce(topic, codec, acks string, idempotent bool, messages []message) error
	// consume reads count messages of partition 0 from the start.
	consume(topic string, count int) ([]message, error)
	// consumeFrom reads count messages of partition 0 from a time in milliseconds.
	consumeFrom(topic string, timestamp int64, count int) ([]message, error)
	// member joins the group and passes on what it receives.
	member(group, topic string, in *inbox) (member, error)
	// sender produces one message with acks=all and waits for its acknowledgement,
	// through whatever the broker does.
	sender(topic string) (send func(message) error, closeIt func(), err error)
	// tail reads all partitions of a topic from the start.
	tail(topic string, partitions int, in *inbox) (closeIt func(), err error)
}

type member interface {
	partitions() []int
	// leave commits what was received and leaves the group.
	leave() error
}

// inbox collects received values.
type inbox struct {
	mu struct {
		sync.Mutex
		values []string
	}
}

func (b *inbox) add(value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.values = append(b.mu.values, value)
}

func (b *inbox) values() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.values)
}

func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.values)
}

const perRound = 100 // records per `ask more`

func record(i int) message {
	return message{fmt.Sprintf("k%06d", i), fmt.Sprintf("v%06d-%s", i, strings.Repeat("x", 200))}
}

func records(begin, end int) []message {
	var out []message
	for i := begin; i < end; i++ {
		out = append(out, record(i))
	}
	return out
}

func values(ms []message) []string {
	var out []string
	for _, m := range ms {
		out = append(out, m.value)
	}
	return out
}

var stdin = bufio.NewScanner(os.Stdin)

func ask(what string) error {
	fmt.Println("ask " + what)
	if !stdin.Scan() || stdin.Text() != "done" {
		return fmt.Errorf("the runner could not %s: %s", what, stdin.Text())
	}
	return nil
}

func until(what func() string, limit time.Duration, holds func() bool) error {
	end := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(end) {
			return fmt.Errorf("no %s within %v", what(), limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func text(s string) func() string { return func() string { return s } }

func expect[T comparable](got, want []T, what string) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%s: record %d is %.30v, want %.30v", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d records, want %d", what, len(got), len(want))
	}
	return nil
}

type arguments struct {
	topic, group, codec string
	count, first        int
	timestamp           int64
}

func runCreate(c client, a arguments) error {
	if err := c.create(a.topic, 3); err != nil {
		return err
	}
	var last error
	shown := func() bool { n, err := c.partitionCount(a.topic); last = err; return n == 3 }
	return errors.Join(until(text("metadata with three partitions"), 10*time.Second, shown), last)
}

func runProduce(c client, a arguments) error {
	for _, acks := range []string{"0", "1", "all"} {
		if err := c.produce(a.topic+"-"+acks, a.codec, acks, false, records(0, a.count)); err != nil {
			return fmt.Errorf("acks=%s: %w", acks, err)
		}
	}
	return nil
}

func runConsume(c client, a arguments) error {
	got, err := c.consume(a.topic, a.count)
	if err != nil {
		return err
	}
	return expect(got, records(0, a.count), "from the start")
}

func runSeek(c client, a arguments) error {
	got, err := c.consumeFrom(a.topic, a.timestamp, a.count-a.first)
	if err != nil {
		return err
	}
	return expect(got, records(a.first, a.count), "from the timestamp")
}

func sorted(s []string) []string { slices.Sort(s); return s }

func round(k int) []string { return values(records(k*perRound, (k+1)*perRound)) }

// moreWhenAll asks for more records once m has all four partitions.
func moreWhenAll(m member, what string) error {
	if err := until(text(what), 40*time.Second, func() bool { return len(m.partitions()) == 4 }); err != nil {
		return err
	}
	return ask("more")
}

func runGroup(c client, a arguments) error {
	var in1, in2, in3 inbox
	one, err := c.member(a.group, a.topic, &in1)
	if err != nil {
		return err
	}
	two, err := c.member(a.group, a.topic, &in2)
	if err != nil {
		return err
	}
	split := func() bool { return len(one.partitions()) == 2 && len(two.partitions()) == 2 }
	have := func() string {
		return fmt.Sprintf("split of four partitions in two (have %v and %v)", one.partitions(), two.partitions())
	}
	if err := until(have, 40*time.Second, split); err != nil {
		return err
	}
	if err := ask("more"); err != nil {
		return err
	}
	if err := until(text("first hundred"), 20*time.Second, func() bool { return in1.len()+in2.len() >= perRound }); err != nil {
		return err
	}
	before := in1.len()
	if before == 0 || in2.len() == 0 {
		return errors.New("one member received everything")
	}
	if err := errors.Join(expect(sorted(append(in1.values(), in2.values()...)), round(0), "both members"), two.leave()); err != nil {
		return err
	}
	if err := moreWhenAll(one, "takeover of all partitions"); err != nil {
		return err
	}
	if err := until(text("second hundred"), 20*time.Second, func() bool { return in1.len()-before >= perRound }); err != nil {
		return err
	}
	if err := errors.Join(expect(sorted(in1.values()[before:]), round(1), "the member that stayed"), one.leave()); err != nil {
		return err
	}
	three, err := c.member(a.group, a.topic, &in3)
	if err != nil {
		return err
	}
	if err := moreWhenAll(three, "assignment of a later member"); err != nil {
		return err
	}
	if err := until(text("third hundred"), 20*time.Second, func() bool { return in3.len() >= perRound }); err != nil {
		return err
	}
	return errors.Join(expect(sorted(in3.values()), round(2), "a member that resumes"), three.leave())
}

func runRestart(c client, a arguments) error {
	send, closeSender, err := c.sender(a.topic)
	if err != nil {
		return err
	}
	defer closeSender()
	var in inbox
	closeTail, err := c.tail(a.topic, 2, &in)
	if err != nil {
		return err
	}
	var acked inbox
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				ended <- nil
				return
			case <-time.After(10 * time.Millisecond):
			}
			if err := send(record(i)); err != nil {
				ended <- fmt.Errorf("record %d: %w", i, err)
				return
			}
			acked.add(record(i).value)
		}
	}()
	if err := until(text("50 records through the broker before its restart"), 40*time.Second, func() bool { return in.len() >= 50 }); err != nil {
		return err
	}
	if err := ask("restart"); err != nil {
		return err
	}
	mark := acked.len()
	failed := func() bool { return len(ended) > 0 }
	if err := until(text("records acknowledged after the restart"), 60*time.Second, func() bool { return failed() || acked.len() >= mark+50 }); err != nil {
		return err
	}
	close(stop)
	if err := <-ended; err != nil {
		return err
	}
	missing := func() int {
		got := map[string]bool{}
		for _, v := range in.values() {
			got[v] = true
		}
		n := 0
		for _, v := range acked.values() {
			if !got[v] {
				n++
			}
		}
		return n
	}
	what := func() string { return fmt.Sprintf("delivery of %d acknowledged records", missing()) }
	err = until(what, 40*time.Second, func() bool { return missing() == 0 })
	closeTail()
	return err
}

func main() {
	var a arguments
	name := flag.String("client", "", "franz, sarama or kafkago")
	brokers := flag.String("brokers", "", "host:port,...")
	scenario := flag.String("scenario", "", "create, delete, produce, idempotent, consume, seek, group or restart")
	flag.StringVar(&a.topic, "topic", "", "topic, or prefix of topics")
	flag.StringVar(&a.group, "group", "", "consumer group")
	flag.StringVar(&a.codec, "codec", "none", "none, gzip, snappy, lz4 or zstd")
	flag.IntVar(&a.count, "count", 0, "number of records")
	flag.IntVar(&a.first, "first", 0, "number of the first record at or after --timestamp")
	flag.Int64Var(&a.timestamp, "timestamp", 0, "milliseconds since 1970")
	flag.Parse()
	stdin.Buffer(make([]byte, 4096), 4096)
	err := run(*name, strings.Split(*brokers, ","), *scenario, a)
	if err != nil {
		fmt.Println("fail: " + strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run(name string, brokers []string, scenario string, a arguments) error {
	open := map[string]func([]string) (client, error){"franz": newFranz, "sarama": newSarama, "kafkago": newKafkaGo}[name]
	if open == nil {
		return fmt.Errorf("unknown client %q", name)
	}
	c, err := open(brokers)
	if err != nil {
		return err
	}
	switch scenario {
	case "create":
		return runCreate(c, a)
	case "delete":
		return c.remove(a.topic)
	case "produce":
		return runProduce(c, a)
	case "idempotent":
		return c.produce(a.topic, "none", "all", true, records(0, a.count))
	case "consume":
		return runConsume(c, a)
	case "seek":
		return runSeek(c, a)
	case "group":
		return runGroup(c, a)
	case "restart":
		return runRestart(c, a)
	}
	return fmt.Errorf("unknown scenario %q", scenario)
}
