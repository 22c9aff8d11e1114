package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

type message struct{ key, value string }

// client is what the commands need of a client. Every call gives up after half a
// minute.
type client interface {
	create(topic string, partitions int, configs map[string]string) error
	partitions(topic string) (int, error)
	remove(topic string) error
	grow(topic string, partitions int) error
	// trim deletes the records below an offset and returns the new log start.
	trim(topic string, partition int, offset int64) (int64, error)
	deleteGroup(group string) error
	reset(group, topic string, partition int, to position) error
	transact(topic, id string, messages []message) error
	open(producerOptions) (producer, error)
	assign(topic string, from position) (consumer, error)
	join(joinOptions) (consumer, error)
}

type producerOptions struct {
	codec, acks string
	idempotent  bool
	batch       int // most records per request, 0: the client's own
}

type producer interface {
	// send produces to partition 0 and returns the first error. timestamp in
	// milliseconds, 0: now.
	send(topic string, messages []message, timestamp int64) error
	// sendOne produces to a partition of the client's choice, through whatever the
	// broker does.
	sendOne(topic string, m message) error
	close() error
}

type joinOptions struct {
	group, topic, assignor, static string
	fromEnd                        bool
	session                        int // milliseconds, 0: 6000
}

func (o joinOptions) sessionTimeout() time.Duration {
	if o.session == 0 {
		return 6 * time.Second
	}
	return time.Duration(o.session) * time.Millisecond
}

type consumer interface {
	commit() error
	leave() error
}

var errUnsupported = errors.New("the client cannot")

// codeOf is the Kafka error code that a client's error shows, or "-".
func codeOf(err error) string {
	var ofFranz *kerr.Error
	var ofSarama sarama.KError
	var ofKafkaGo kafka.Error
	var tooLarge kafka.MessageTooLargeError
	switch {
	case errors.As(err, &ofFranz):
		return strconv.Itoa(int(ofFranz.Code))
	case errors.As(err, &ofSarama):
		return strconv.Itoa(int(ofSarama))
	case errors.As(err, &ofKafkaGo):
		return strconv.Itoa(int(ofKafkaGo))
	case errors.As(err, &tooLarge):
		return strconv.Itoa(int(kafka.MessageSizeTooLarge))
	}
	return "-"
}

// out is standard output; lines of several goroutines do not mix.
var out output

type output struct{ mu sync.Mutex }

func (o *output) line(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

// got reports a record that a consumer handed over.
func (o *output) got(partition int, offset int64, key, value []byte) {
	n := 0
	if _, err := fmt.Sscanf(string(key), "k%06d", &n); err != nil || string(value) != record(n, 0).value {
		o.line("got %d %d ?%.20q", partition, offset, value)
		return
	}
	o.line("got %d %d %d", partition, offset, n)
}

// assignment is the set of partitions that a member holds; it reports changes.
type assignment struct {
	mu   sync.Mutex
	held []int
}

func (a *assignment) add(parts ...int) {
	a.change(func() {
		for _, p := range parts {
			if !slices.Contains(a.held, p) {
				a.held = append(a.held, p)
			}
		}
	})
}

func (a *assignment) remove(parts ...int) {
	a.change(func() { a.held = slices.DeleteFunc(a.held, func(p int) bool { return slices.Contains(parts, p) }) })
}

func (a *assignment) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	slices.Sort(a.held)
	out.line("assigned %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(a.held), " ", ","), "[]"))
}

func record(i, size int) message {
	if size == 0 {
		size = len("v000000-") + 200
	}
	v := fmt.Sprintf("v%06d-", i)
	return message{fmt.Sprintf("k%06d", i), v + strings.Repeat("x", size-len(v))}
}

func records(first, count, size int) []message {
	var all []message
	for i := range count {
		all = append(all, record(first+i, size))
	}
	return all
}

// stream sends one record after the other, about every ten milliseconds.
type stream struct {
	quit  chan struct{}
	ended chan struct{}
	sent  int   // valid after ended
	err   error // valid after ended
}

func startStream(p producer, topic string) *stream {
	s := &stream{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			select {
			case <-s.quit:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if s.err = p.sendOne(topic, record(s.sent, 0)); s.err != nil {
				return
			}
			out.line("acked %d", s.sent)
			s.sent++
		}
	}()
	return s
}

func (s *stream) stop() (sent int, err error) {
	close(s.quit)
	<-s.ended
	return s.sent, s.err
}
