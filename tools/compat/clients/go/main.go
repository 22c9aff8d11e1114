// Command clients drives a broker with one of the Go clients that the
// compatibility suite covers: franz-go, sarama, segmentio/kafka-go. The commands
// that it takes are in ../README.md.
//
// It is a module of its own so that the broker's module stays free of these
// clients.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// notInGroup are the codes of a commit by a member that has to join first, again
// perhaps: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS.
var notInGroup = []string{"22", "25", "27"}

func main() {
	name := flag.String("client", "", "franz, sarama or kafkago")
	brokers := flag.String("brokers", "", "host:port,...")
	flag.Parse()
	open := map[string]func([]string) (client, error){"franz": newFranz, "sarama": newSarama, "kafkago": newKafkaGo}[*name]
	if open == nil {
		fmt.Fprintf(os.Stderr, "unknown client %q\n", *name)
		os.Exit(2)
	}
	c, err := open(strings.Split(*brokers, ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	s := &session{client: c}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, a := parse(in.Text())
		answer, err := s.do(verb, a)
		if err != nil {
			out.line("error %s %s", codeOf(err), strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		out.line("%s", strings.TrimSpace("ok "+answer))
	}
}

// arguments are the name=value pairs of a command.
type arguments map[string]string

func parse(line string) (verb string, a arguments) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", nil
	}
	a = arguments{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = v
	}
	return words[0], a
}

func (a arguments) number(name string) int {
	n, _ := strconv.Atoi(a[name])
	return n
}

func (a arguments) or(name, otherwise string) string {
	if v := a[name]; v != "" {
		return v
	}
	return otherwise
}

// position is a place in a partition: start, end, offset:N, timestamp:MS or
// shift:N.
type position struct {
	form  string
	value int64
}

func parsePosition(s string) position {
	form, value, _ := strings.Cut(s, ":")
	n, _ := strconv.ParseInt(value, 10, 64)
	return position{form, n}
}

// session is the one producer and the one consumer of the process.
type session struct {
	client   client
	producer producer
	stream   *stream
	consumer consumer
}

func (s *session) do(verb string, a arguments) (answer string, err error) {
	switch verb {
	case "create":
		configs := map[string]string{}
		for kv := range strings.SplitSeq(a["configs"], ",") {
			if k, v, ok := strings.Cut(kv, ":"); ok {
				configs[k] = v
			}
		}
		return "", s.client.create(a["topic"], a.number("partitions"), configs)
	case "partitions":
		n, err := s.client.partitions(a["topic"])
		return fmt.Sprintf("count=%d", n), err
	case "delete":
		return "", s.client.remove(a["topic"])
	case "grow":
		return "", s.client.grow(a["topic"], a.number("partitions"))
	case "trim":
		low, err := s.client.trim(a["topic"], a.number("partition"), int64(a.number("offset")))
		return fmt.Sprintf("low=%d", low), err
	case "delete-group":
		return "", s.client.deleteGroup(a["group"])
	case "reset":
		return "", s.client.reset(a["group"], a["topic"], a.number("partition"), parsePosition(a["to"]))
	case "transact":
		return "", s.client.transact(a["topic"], a["id"], records(a.number("first"), a.number("count"), 0))
	}
	if done, err := s.produce(verb, a); done {
		return "", err
	}
	if verb == "stop" {
		n, err := s.stream.stop()
		return fmt.Sprintf("sent=%d", n), err
	}
	return "", s.consume(verb, a)
}

func (s *session) produce(verb string, a arguments) (done bool, err error) {
	switch verb {
	case "producer":
		s.producer, err = s.client.open(producerOptions{codec: a.or("codec", "none"), acks: a.or("acks", "all"),
			idempotent: a["idempotent"] == "yes", batch: a.number("batch")})
	case "send":
		err = s.producer.send(a["topic"], records(a.number("first"), a.number("count"), a.number("size")), int64(a.number("timestamp")))
	case "stream":
		if s.producer, err = s.client.open(producerOptions{codec: "none", acks: "all"}); err == nil {
			s.stream = startStream(s.producer, a["topic"])
		}
	case "close-producer":
		err = s.producer.close()
	default:
		return false, nil
	}
	return true, err
}

func (s *session) consume(verb string, a arguments) (err error) {
	switch verb {
	case "assign":
		s.consumer, err = s.client.assign(a["topic"], parsePosition(a["from"]))
	case "join":
		s.consumer, err = s.client.join(joinOptions{group: a["group"], topic: a["topic"], assignor: a.or("assignor", "default"),
			static: a["static"], fromEnd: a["reset"] == "end", session: a.number("session")})
	case "commit":
		err = s.commit()
	case "leave":
		err = s.consumer.leave()
	default:
		err = errors.New("unknown command " + verb)
	}
	return err
}

// commit repeats until the member is in the group.
func (s *session) commit() error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		err := s.consumer.commit()
		if err == nil || !slices.Contains(notInGroup, codeOf(err)) || time.Now().After(end) {
			return err
		}
	}
}
