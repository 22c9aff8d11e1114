package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

type consumeFlags struct {
	group, instance  string
	partitions, from string
	until            string
	untilEnd         bool
	count            int64
	format           string
	isolation        string
}

func (a *app) consumeCommand() *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use: "consume TOPIC...", Short: "Print records, as a member of a group or from given positions",
		Long: "Print records until Ctrl-C, --count or --until-end. With --group the command is a member\n" +
			"of a consumer group and commits the offsets of what it has printed; without, it reads the\n" +
			"partitions by itself and commits nothing.\n\n" +
			"A position is " + positionHelp + ".\n" + timeHelp + "\n\nThe fields of --format are\n" + formatHelp,
		Example: "  millrace consume orders --until-end\n" +
			"  millrace consume orders --group billing --format '%p %o %k %v\\n'\n" +
			"  millrace consume orders --partitions 0 --from @-15m --count 10 --json",
		Args: takes(1, -1, "the name of a topic"), ValidArgsFunction: a.completeTopics(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := f.check(cmd, a.opts.json, time.Now())
			if err != nil {
				return err
			}
			c.topics = args
			return a.stream(cmd, nil, func(ctx context.Context, s *session) error { return c.run(ctx, s) })
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.group, "group", "g", "", "be a member of this group")
	fl.StringVar(&f.instance, "instance", "", "be the static member of this name (KIP-345)")
	fl.StringVarP(&f.partitions, "partitions", "p", "", "only these partitions, for example 0,2,5-7")
	fl.StringVarP(&f.from, "from", "o", "start", "where to begin; in a group, where nothing is committed (then start, end or @TIME)")
	fl.StringVar(&f.until, "until", "", "stop before this position in every partition")
	fl.BoolVarP(&f.untilEnd, "until-end", "e", false, "stop at what is the end now")
	fl.Int64VarP(&f.count, "count", "n", 0, "stop after so many records, 1 or more (default no limit)")
	fl.StringVarP(&f.format, "format", "f", "%v\\n", "how to print a record, see above")
	fl.StringVar(&f.isolation, "isolation", "read_committed", "read_committed, or read_uncommitted to see open and aborted transactions")
	a.completeFlag(c, "group", a.completeGroups(-1))
	a.completeFlag(c, "from", words("start", "end"))
	a.completeFlag(c, "isolation", words("read_committed", "read_uncommitted"))
	return c
}

// consuming is one run of consume.
type consuming struct {
	topics    []string
	group     string
	instance  string
	only      []int32
	from      position
	until     *position
	count     int64 // 0: no limit
	format    format
	json      bool
	committed bool // read_committed

	printed atomic.Int64

	mu struct {
		sync.Mutex
		// left has the partitions that have not reached where to stop, and that
		// offset; only with until.
		left   map[topicPartition]int64
		joined bool // left is known
	}
	stops map[topicPartition]int64 // where to stop, of all partitions
}

func (f *consumeFlags) check(cmd *cobra.Command, asJSON bool, now time.Time) (*consuming, error) {
	c := &consuming{group: f.group, instance: f.instance, count: f.count, json: asJSON}
	var err error
	if c.from, err = parsePosition("--from", f.from, now); err != nil {
		return nil, err
	}
	if f.until != "" && f.untilEnd {
		return nil, usagef("give either --until or --until-end")
	}
	if f.untilEnd {
		f.until = "end"
	}
	if f.until != "" {
		p, err := parsePosition("--until", f.until, now)
		if err != nil {
			return nil, err
		}
		c.until = &p
	}
	if f.partitions != "" {
		if c.only, err = parsePartitions("--partitions", f.partitions); err != nil {
			return nil, err
		}
	}
	if cmd.Flags().Changed("count") {
		if f.count < 1 {
			return nil, usagef("--count: %d is out of range, it must be 1 or more", f.count)
		}
	}
	if asJSON && cmd.Flags().Changed("format") {
		return nil, usagef("give either --json or --format")
	}
	if c.format, err = parseFormat(f.format); err != nil {
		return nil, err
	}
	switch strings.ToLower(f.isolation) {
	case "read_committed":
		c.committed = true
	case "read_uncommitted":
	default:
		return nil, badChoice("--isolation", f.isolation, "read_committed", "read_uncommitted")
	}
	if c.group == "" && c.instance != "" {
		return nil, usagef("--instance needs --group")
	}
	if c.group != "" && c.only != nil {
		return nil, usagef("give either --group or --partitions").hint("A group distributes the partitions itself.")
	}
	if c.group != "" && c.from.kind != atStart && c.from.kind != atEnd && c.from.kind != atTime {
		return nil, usagef("--from: %q cannot be used with --group", f.from).
			hint("Write start, end or @TIME. \"millrace group reset-offsets\" moves a group.")
	}
	return c, nil
}

func (c *consuming) run(ctx context.Context, s *session) error {
	starts, err := c.prepare(ctx, s)
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.KeepControlRecords(), kgo.FetchMaxWait(500 * time.Millisecond)}
	if c.committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if c.group != "" {
		opts = append(opts, c.groupOptions(s)...)
	} else {
		opts = append(opts, kgo.ConsumePartitions(starts))
	}
	cl, err := kgo.NewClient(append(s.kopts, opts...)...)
	if err != nil {
		return usagef("%v", err)
	}
	err = c.pump(ctx, s, cl)
	return errors.Join(err, c.leave(s, cl))
}

// prepare checks the topics and finds where to begin and where to stop.
func (c *consuming) prepare(ctx context.Context, s *session) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.timeout)
	defer cancel()
	found, err := s.findTopics(ctx, c.topics, s.unknownTopic)
	if err != nil {
		return nil, err
	}
	b, err := s.bounds(ctx, c.topics...)
	if err != nil {
		return nil, err
	}
	if c.committed && c.until != nil {
		if b.end, err = s.listed(s.adm.ListCommittedOffsets(ctx, c.topics...)); err != nil {
			return nil, err
		}
	}
	starts := map[string]map[int32]kgo.Offset{}
	c.stops = map[topicPartition]int64{}
	c.mu.left = map[topicPartition]int64{}
	for _, t := range found {
		only, err := choosePartitions(t, c.only)
		if err != nil {
			return nil, err
		}
		at, err := s.resolve(ctx, c.from, b, t.Topic)
		if err != nil {
			return nil, err
		}
		var stop map[int32]int64
		if c.until != nil {
			if stop, err = s.resolve(ctx, *c.until, b, t.Topic); err != nil {
				return nil, err
			}
		}
		starts[t.Topic] = map[int32]kgo.Offset{}
		for _, p := range only {
			starts[t.Topic][p] = kgo.NewOffset().At(at[p])
			if c.until != nil {
				c.stops[topicPartition{t.Topic, p}] = stop[p]
				if at[p] < stop[p] {
					c.mu.left[topicPartition{t.Topic, p}] = stop[p]
				}
			}
		}
	}
	c.mu.joined = c.group == ""
	return starts, nil
}

func (c *consuming) groupOptions(s *session) []kgo.Opt {
	reset := kgo.NewOffset().AtStart()
	switch c.from.kind {
	case atEnd:
		reset = kgo.NewOffset().AtEnd()
	case atTime:
		reset = kgo.NewOffset().AfterMilli(c.from.n)
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.topics...),
		kgo.ConsumeStartOffset(reset), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Second), kgo.BlockRebalanceOnPoll(),
	}
	if c.instance != "" {
		opts = append(opts, kgo.InstanceID(c.instance))
	}
	if c.until != nil {
		c.mu.left = map[topicPartition]int64{}
		opts = append(opts, kgo.OnPartitionsAssigned(func(ctx context.Context, _ *kgo.Client, got map[string][]int32) {
			c.assigned(ctx, s, got)
		}), kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, lost map[string][]int32) {
			// As the default does, which this replaces. What could not be
			// committed is read again by the next owner.
			if err := cl.CommitMarkedOffsets(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintf(s.err, "millrace: offsets were not committed: %v\n", err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for t, ps := range lost {
				for _, p := range ps {
					delete(c.mu.left, topicPartition{t, p})
				}
			}
		}), kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {
			c.lost()
		}))
	}
	return opts
}

// lost forgets what is left when the member fell out of its group, until it has
// joined again.
func (c *consuming) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.mu.left)
	c.mu.joined = false
}

// assigned notes which of the new partitions are not yet where to stop.
func (c *consuming) assigned(ctx context.Context, s *session, got map[string][]int32) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.timeout)
	defer cancel()
	// Without an answer the partitions count as unread: at worst the command
	// waits for records instead of ending early.
	commits, err := s.adm.FetchOffsets(ctx, c.group)
	if err != nil {
		commits = nil
	}
	starts, err := s.adm.ListStartOffsets(ctx, c.topics...)
	if err != nil {
		starts = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.joined = true
	for t, ps := range got {
		for _, p := range ps {
			tp := topicPartition{t, p}
			stop := c.stops[tp]
			at := int64(0)
			if l, ok := starts.Lookup(t, p); ok && l.Err == nil {
				at = l.Offset
			}
			if o, ok := commits.Lookup(t, p); ok && o.Err == nil {
				at = max(at, o.At)
			} else if c.from.kind == atEnd {
				at = stop
			}
			if at < stop {
				c.mu.left[tp] = stop
			}
		}
	}
}

// pump prints until it is to stop.
func (c *consuming) pump(ctx context.Context, s *session, cl *kgo.Client) error {
	if !isTerminal(s.out) {
		s.note.say(func() string {
			line := fmt.Sprintf("%d records", c.printed.Load())
			if addr, err := s.dialer.lastFailure(); err != nil {
				line += fmt.Sprintf("; broker %s: %s", addr, reason(err))
			}
			return line
		})
	} else {
		s.note.say(nil)
	}
	out := bufio.NewWriterSize(s.out, 64<<10)
	for !c.done() {
		// The wait is short so that done is asked again after a rebalance.
		polled, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		fs := cl.PollRecords(polled, c.batch())
		cancel()
		err := c.printAll(out, cl, fs)
		if e := out.Flush(); err == nil {
			err = e
		}
		cl.AllowRebalance()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return c.interrupted(ctx)
		}
		if addr, err := s.dialer.failingFor(s.opts.timeout); err != nil {
			return s.lostBroker(addr, err)
		}
		if err := fetchError(fs, s); err != nil {
			return err
		}
	}
	return nil
}

// interrupted is no failure where Ctrl-C is the way to end.
func (c *consuming) interrupted(ctx context.Context) error {
	if c.count == 0 && c.until == nil {
		return nil
	}
	return ctx.Err()
}

func (c *consuming) batch() int {
	if c.count > 0 {
		return int(min(c.count-c.printed.Load(), 5000))
	}
	return 5000
}

func (c *consuming) done() bool {
	if c.count > 0 && c.printed.Load() >= c.count {
		return true
	}
	if c.until == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.joined && len(c.mu.left) == 0
}

// printAll writes records and marks what was written for the next commit.
func (c *consuming) printAll(out *bufio.Writer, cl *kgo.Client, fs kgo.Fetches) error {
	var buf []byte
	var marked []*kgo.Record
	var err error
	fs.EachRecord(func(r *kgo.Record) {
		if err != nil || c.passed(r) {
			return
		}
		if !r.Attrs.IsControl() {
			if c.json {
				buf, err = appendJSON(buf[:0], r)
			} else {
				buf = c.format.append(buf[:0], r)
			}
			if err == nil {
				_, err = out.Write(buf)
			}
			c.printed.Add(1)
		}
		if err == nil {
			marked = append(marked, r)
		}
	})
	if e := out.Flush(); err == nil {
		err = e
	}
	if err == nil && c.group != "" {
		cl.MarkCommitRecords(marked...)
	}
	return err
}

// passed notes how far a partition is, and says whether the record lies beyond
// where to stop.
func (c *consuming) passed(r *kgo.Record) bool {
	if c.until == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tp := topicPartition{r.Topic, r.Partition}
	if stop, ok := c.mu.left[tp]; ok && r.Offset+1 >= stop {
		delete(c.mu.left, tp)
	}
	return r.Offset >= c.stops[tp]
}

// fetchError is the first error that is worth stopping for.
func fetchError(fs kgo.Fetches, s *session) error {
	var first error
	fs.EachError(func(t string, p int32, err error) {
		var loss *kgo.ErrDataLoss
		var session *kgo.ErrGroupSession
		switch {
		case first != nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case errors.As(err, &loss):
			fmt.Fprintf(s.err, "millrace: topic %s, partition %d: the broker lost records before offset %d\n", t, p, loss.ConsumedTo)
		case errors.As(err, &session) && connectionLost(session.Err):
			// The member joins again by itself; pump gives up after --timeout.
		case t == "":
			first = err
		default:
			first = explainErr(fmt.Sprintf("topic %q, partition %d", t, p), err, "")
		}
	})
	return first
}

// connectionLost is what happens while a broker restarts.
func connectionLost(err error) bool {
	var op *net.OpError
	return kgo.IsRetryableBrokerErr(err) || errors.As(err, &op) && op.Op == "dial"
}

// leave commits what was printed and leaves the group, also after an interrupt.
func (c *consuming) leave(s *session, cl *kgo.Client) error {
	defer cl.CloseAllowingRebalance()
	if c.group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.timeout)
	defer cancel()
	if err := cl.CommitMarkedOffsets(ctx); err != nil {
		return fmt.Errorf("offsets of group %q were not committed: %w", c.group, err)
	}
	return nil
}
