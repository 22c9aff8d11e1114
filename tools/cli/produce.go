package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

type produceFlags struct {
	keySep, delimiter, key string
	headers                []string
	partition              int32
	compression, acks      string
	idempotent             bool
	files                  []string
	raw, null, autoCreate  bool
	rate                   float64
	recordMax              int
	quiet                  bool
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (a *app) produceCommand() *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use: "produce TOPIC", Short: "Send records from stdin or files, one a line",
		Long: "Send records to a topic, one for each line of stdin or of the files. The command is done\nwhen the broker has acknowledged every record, and prints where they went.",
		Example: "  echo 'hello' | millrace produce greetings\n" +
			"  printf 'alice:1\\nbob:2\\n' | millrace produce scores --key-separator :\n" +
			"  millrace produce images --raw --file cat.png --header type=image/png",
		Args: takes(1, 1, "the name of a topic"), ValidArgsFunction: a.completeTopics(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.check(cmd)
			if err != nil {
				return err
			}
			p.topic = args[0]
			opts := p.kopts
			opts = append(opts, kgo.RecordDeliveryTimeout(a.opts.timeout), kgo.UnknownTopicRetries(5))
			return a.stream(cmd, opts, func(ctx context.Context, s *session) error { return p.run(ctx, s) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.keySep, "key-separator", "K", "", "what is before it in a line is the key; escapes such as \\t are known")
	fl.StringVarP(&f.delimiter, "delimiter", "D", "\\n", "what ends a record, one or more characters")
	fl.StringVarP(&f.key, "key", "k", "", "the key of every record")
	fl.StringArrayVarP(&f.headers, "header", "H", nil, "a header NAME=VALUE of every record; may be repeated")
	fl.Int32VarP(&f.partition, "partition", "p", -1, "send to this partition; -1: by key, as Kafka's own clients do")
	fl.StringVarP(&f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	fl.StringVar(&f.acks, "acks", "all", "which acknowledgement to wait for: all (in-sync replicas), 1 (leader) or 0 (none)")
	fl.BoolVar(&f.idempotent, "idempotent", true, "never write a record twice when a request is repeated (needs --acks all)")
	fl.StringArrayVarP(&f.files, "file", "F", nil, "read this file instead of stdin, - is stdin; may be repeated")
	fl.BoolVar(&f.raw, "raw", false, "stdin, or each file, is one record as it is")
	fl.BoolVarP(&f.null, "null", "Z", false, "send an empty value as null (a tombstone), and an empty key as none")
	fl.BoolVar(&f.autoCreate, "auto-create", false, "let the broker create the topic, if it is configured to")
	fl.Float64Var(&f.rate, "rate", 0, "at most so many records a second, 0.001 to 10000000 (default no limit)")
	fl.IntVar(&f.recordMax, "max-record-bytes", 1<<20, "refuse longer records, 1 to 1073741824")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "do not print where the records went")
	a.completeFlag(c, "compression", words("none", "gzip", "snappy", "lz4", "zstd"))
	a.completeFlag(c, "acks", words("all", "1", "0"))
	return c
}

// producing is one run of produce: the checked flags, and what came of it.
type producing struct {
	produceFlags
	topic    string
	headers  []kgo.RecordHeader
	kopts    []kgo.Opt
	hasKey   bool
	acksNone bool

	topicMax atomic.Int64 // max.message.bytes; -1 while it is not known

	mu struct {
		sync.Mutex
		sent, acked, bytes int64
		byPartition        map[int32]*producedRow
		failed             int64
		err                error // the first
	}
}

type producedRow struct {
	Partition int32 `json:"partition"`
	Records   int64 `json:"records"`
	First     int64 `json:"first_offset"` // -1 without acknowledgements
	Last      int64 `json:"last_offset"`
}

func (f *produceFlags) check(cmd *cobra.Command) (*producing, error) {
	p := &producing{produceFlags: *f, hasKey: cmd.Flags().Changed("key")}
	p.mu.byPartition = map[int32]*producedRow{}
	p.topicMax.Store(-1)
	var err error
	if p.keySep, err = unescapeAll("--key-separator", f.keySep); err != nil {
		return nil, err
	}
	if p.delimiter, err = unescapeAll("--delimiter", f.delimiter); err != nil {
		return nil, err
	}
	switch {
	case p.delimiter == "":
		return nil, usagef("--delimiter: it cannot be empty").hint("--raw sends the whole input as one record.")
	case p.keySep != "" && p.hasKey:
		return nil, usagef("give either --key or --key-separator")
	case p.keySep != "" && p.raw:
		return nil, usagef("--raw sends the input as it is, it has no --key-separator").hint("Give the key with --key.")
	}
	if err := inRange("--partition", f.partition, -1, 1<<31-1); err != nil {
		return nil, err
	}
	if err := inRange("--max-record-bytes", f.recordMax, 1, 1<<30); err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("rate") {
		if err := inRange("--rate", f.rate, 0.001, 1e7); err != nil {
			return nil, err
		}
	}
	hs, err := parseSettings("--header", f.headers, "source=shop")
	if err != nil {
		return nil, err
	}
	for _, h := range hs {
		p.headers = append(p.headers, kgo.RecordHeader{Key: h.name, Value: []byte(h.value)})
	}
	return p, p.options(cmd.Flags().Changed("idempotent"))
}

// batchMax is how large batches may get, in bytes: up to the topic's
// max.message.bytes, above which the broker takes none, and with room for the
// longest record that is asked for. Where the broker does not tell the topic's
// limit it is taken for the default, or raised by who asks for longer records.
func batchMax(recordMax int, topicMax int64) int32 {
	const (
		defaultMaxMessageBytes = 1048588
		clientMin, clientMax   = 512, 1 << 30 // what kgo takes
	)
	enough := int64(max(recordMax, 1<<20) + 64<<10)
	if topicMax < 0 {
		if topicMax = enough; recordMax <= 1<<20 {
			topicMax = defaultMaxMessageBytes
		}
	}
	return int32(min(max(min(topicMax, enough), clientMin), clientMax))
}

// topicLimit asks for the topic's max.message.bytes; -1 where it is not told.
func (p *producing) topicLimit(ctx context.Context, s *session) int64 {
	ctx, cancel := context.WithTimeout(ctx, s.opts.timeout)
	defer cancel()
	got, err := s.adm.DescribeTopicConfigs(ctx, p.topic)
	if err != nil || len(got) != 1 || got[0].Err != nil {
		return -1
	}
	for _, c := range got[0].Configs {
		if c.Key == "max.message.bytes" && c.Value != nil {
			if n, err := strconv.ParseInt(*c.Value, 10, 32); err == nil {
				return n
			}
		}
	}
	return -1
}

func (p *producing) options(idempotentGiven bool) error {
	codec, ok := codecs[strings.ToLower(p.compression)]
	if !ok {
		return badChoice("--compression", p.compression, "none", "gzip", "snappy", "lz4", "zstd")
	}
	idempotent := p.idempotent
	var acks kgo.Acks
	switch strings.ToLower(p.acks) {
	case "all", "-1":
		acks = kgo.AllISRAcks()
	case "1":
		acks = kgo.LeaderAck()
	case "0":
		acks, p.acksNone = kgo.NoAck(), true
	default:
		return badChoice("--acks", p.acks, "all", "1", "0")
	}
	if acks != kgo.AllISRAcks() {
		if idempotentGiven && idempotent {
			return usagef("--idempotent needs --acks all, got --acks %s", p.acks)
		}
		idempotent = false
	}
	p.kopts = []kgo.Opt{
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytesFn(func(string) int32 { return batchMax(p.recordMax, p.topicMax.Load()) }),
		kgo.BrokerMaxWriteBytes(int32(max(p.recordMax+1<<20, 100<<20))),
		kgo.MaxBufferedBytes(max(64<<20, 2*p.recordMax)),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
	if p.partition >= 0 {
		p.kopts = append(p.kopts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if idempotent {
		// A waiting person wants an end rather than the certainty that only an
		// endless wait could give; what timed out is reported as not known.
		p.kopts = append(p.kopts, kgo.AllowIdempotentProduceCancellation())
	} else {
		p.kopts = append(p.kopts, kgo.DisableIdempotentWrite())
	}
	if p.autoCreate {
		p.kopts = append(p.kopts, kgo.AllowAutoTopicCreation())
	}
	return nil
}

func (p *producing) run(ctx context.Context, s *session) error {
	if err := p.checkTopic(ctx, s); err != nil {
		return err
	}
	p.topicMax.Store(p.topicLimit(ctx, s)) // before kgo, which asks once, hears of the topic
	start := time.Now()
	typed := len(p.files) == 0 && isTerminal(s.in)
	if typed {
		fmt.Fprintln(s.err, "Type records, one a line; Ctrl-D ends.")
	}
	tell := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		line := fmt.Sprintf("%d records read, %d acknowledged, %.1f MB", p.mu.sent, p.mu.acked, float64(p.mu.bytes)/1e6)
		if addr, err := s.dialer.lastFailure(); err != nil {
			line += fmt.Sprintf("; broker %s: %s", addr, reason(err))
		}
		return line
	}
	s.note.say(nil)
	if !typed {
		s.note.say(tell)
	}
	readErr := p.readAll(ctx, s)
	s.note.say(tell)
	// What was read is sent even after an interrupt; RecordDeliveryTimeout bounds
	// the wait.
	flushErr := s.cl.Flush(context.WithoutCancel(ctx))
	s.note.say(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := errors.Join(p.mu.err, readErr, flushErr)
	if p.mu.err != nil {
		err = p.failure(s)
	}
	return errors.Join(p.report(s, start, err != nil), err)
}

func (p *producing) checkTopic(ctx context.Context, s *session) error {
	if p.autoCreate {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.timeout)
	defer cancel()
	found, err := s.findTopics(ctx, []string{p.topic}, s.unknownTopic)
	if err != nil {
		return err
	}
	if p.partition >= 0 {
		_, err = choosePartitions(found[0], []int32{p.partition})
	}
	return err
}

// readAll reads and sends until the input ends, a record fails or ctx does. The
// reading has a goroutine of its own, because a terminal blocks.
func (p *producing) readAll(ctx context.Context, s *session) error {
	pieces := make(chan piece)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(pieces)
		p.readPieces(s.in, pieces, stop)
	}()
	next := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case in, ok := <-pieces:
			if !ok {
				return nil
			}
			if in.err != nil {
				return in.err
			}
			rec, err := p.record(in)
			if err != nil {
				return err
			}
			if p.rate > 0 {
				if next = next.Add(time.Duration(float64(time.Second) / p.rate)); !sleepUntil(ctx, next) {
					return ctx.Err()
				}
			}
			if !p.send(ctx, s, rec, in.where) {
				return nil
			}
		}
	}
}

// piece is one record's text and where it was read.
type piece struct {
	text  []byte
	where string
	err   error
}

func (p *producing) readPieces(stdin io.Reader, out chan<- piece, stop <-chan struct{}) {
	files := p.files
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		in := stdin
		if name == "-" {
			name = "stdin"
		} else {
			f, err := os.Open(name)
			if err != nil {
				emit(out, stop, piece{err: usagef("--file: %v", err)})
				return
			}
			defer f.Close()
			in = f
		}
		sc := newSplitter(in, p.delimiter, p.recordMax, p.raw)
		for n := 1; sc.next(); n++ {
			where := fmt.Sprintf("record %d of %s", n, name)
			if !emit(out, stop, piece{text: sc.text, where: where}) {
				return
			}
		}
		if sc.err != nil {
			emit(out, stop, piece{err: failf(ExitFailed, "%s: %v", name, sc.err).hint("%s", sc.advice())})
			return
		}
	}
}

func emit(out chan<- piece, stop <-chan struct{}, p piece) bool {
	select {
	case out <- p:
		return true
	case <-stop:
		return false
	}
}

// sleepUntil is false where ctx ended first.
func sleepUntil(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (p *producing) record(in piece) (*kgo.Record, error) {
	r := &kgo.Record{Topic: p.topic, Value: in.text, Headers: p.headers, Partition: max(p.partition, 0)}
	if p.hasKey {
		r.Key = []byte(p.key)
	}
	if p.keySep != "" {
		k, v, ok := strings.Cut(string(in.text), p.keySep)
		if !ok {
			return nil, usagef("%s has no key separator %q", in.where, p.keySep).
				hint("The records before it were sent. Leave out --key-separator for records without keys.")
		}
		r.Key, r.Value = []byte(k), []byte(v)
	}
	if r.Value == nil {
		r.Value = []byte{}
	}
	if p.null && len(r.Value) == 0 {
		r.Value = nil
	}
	if p.null && len(r.Key) == 0 {
		r.Key = nil
	}
	return r, nil
}

// send is false once a record has failed: no more shall be read.
func (p *producing) send(ctx context.Context, s *session, r *kgo.Record, where string) bool {
	p.mu.Lock()
	ok := p.mu.err == nil
	if ok {
		p.mu.sent++
	}
	p.mu.Unlock()
	if !ok {
		return false
	}
	s.cl.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			p.mu.failed++
			if p.mu.err == nil {
				p.mu.err = fmt.Errorf("%s: %w", where, err)
			}
			return
		}
		p.mu.acked++
		p.mu.bytes += int64(len(r.Key) + len(r.Value))
		row := p.mu.byPartition[r.Partition]
		if row == nil {
			row = &producedRow{Partition: r.Partition, First: r.Offset}
			p.mu.byPartition[r.Partition] = row
		}
		row.Records++
		row.Last = r.Offset
		if p.acksNone {
			row.First, row.Last = -1, -1
		}
	})
	return true
}
