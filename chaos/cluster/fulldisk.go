package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"

	"millrace/bench/peers"
	"millrace/chaos/check"
)

// fulldisk is the subcommand: each file system, with the broker's reserve of
// free space as it comes and without one (writes then hit the brim themselves).
func fulldisk(ctx context.Context, o options) error {
	for kind := range strings.SplitSeq(o.fs, ",") {
		for _, env := range [][]string{nil, {"MILLRACE_DISK_RESERVE_BYTES=1"}} {
			name := fmt.Sprintf("fulldisk-%s-%d", kind, len(env))
			fmt.Printf("%s %v\n", kind, env)
			if err := fillOne(ctx, o, name, kind, env); err != nil {
				return fmt.Errorf("%s %v: %w", kind, env, err)
			}
		}
	}
	return nil
}

const (
	fillDiskBytes = 2 << 30
	fillLeft      = 400 << 20 // free space once the other files on the disk are there
	fillTopic     = 80 << 20
	reserveBytes  = 256 << 20 // default of disk.reserve.bytes
)

func fillOne(ctx context.Context, o options, name, kind string, env []string) (err error) {
	dir, err := workdir(o, name)
	if err != nil {
		return err
	}
	d, err := newDisk(dir, kind, fillDiskBytes)
	defer func() { err = errors.Join(err, d.close()) }()
	if err != nil {
		return err
	}
	b, err := o.newBroker(dir, filepath.Join(d.at, "data"), env...)
	if err != nil {
		return err
	}
	defer b.Kill()
	f := &filling{shrunk: map[string]bool{}, o: o, disk: d, broker: b, ballast: filepath.Join(d.at, "other-files")}
	if o.broker.Ours() && len(env) == 0 {
		f.reserve = reserveBytes
	}
	if err := f.run(ctx); err != nil {
		return fmt.Errorf("%w\nlog %s", err, b.LogPath())
	}
	return errors.Join(b.Kill(), d.close(), os.RemoveAll(dir))
}

// filling is one walk through full disk and space again.
type filling struct {
	// Immutable.
	o       options
	disk    *disk
	broker  peers.Broker
	ballast string
	reserve int64 // bytes that the broker wants free; 0: none, or unknown

	l    *load
	cl   *kgo.Client // tries each record once
	seq  int64
	pid  int
	keep topicSpec // stays, its records are checked at the end
	drop topicSpec // is deleted while the disk is full
	aged topicSpec // gets a retention limit while the disk is full

	fullFree int64           // bytes free when the broker last refused
	shrunk   map[string]bool // steps that needed help
}

func (f *filling) run(ctx context.Context) error {
	start := func() error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := f.broker.Start(ctx)
		return err
	}
	if err := start(); err != nil {
		return err
	}
	rec := &check.Recorder{}
	f.l = newLoad(ctx, f.broker.Addr(), "full-", f.o.seed, rec, nil)
	defer func() { f.l.stopSends(); f.l.stopReads() }()
	f.l.lagging = !f.o.broker.Ours()
	f.pid = f.broker.PID()
	if err := f.walk(ctx); err != nil {
		return err
	}
	if err := f.l.stop(); err != nil {
		return err
	}
	if err := f.broker.Kill(); err != nil {
		return err
	}
	if err := start(); err != nil {
		return fmt.Errorf("start after the walk: %w", err)
	}
	for _, t := range []topicSpec{f.keep, f.aged} {
		if err := f.l.readAll(ctx, t); err != nil {
			return err
		}
	}
	if err := f.l.catalogue.finalView(ctx); err != nil {
		return err
	}
	if err := verdict(rec.History(), filepath.Dir(f.broker.LogPath())); err != nil {
		return err
	}
	fmt.Printf("  %d records acknowledged, %d refused, %d unknown, no violation\n", f.l.acked.Load(), f.l.refused.Load(), f.l.unknown.Load())
	return nil
}

// walk fills the disk three times; space comes back by deleting a topic, by
// retention, and by others leaving the disk.
func (f *filling) walk(ctx context.Context) error {
	segments := map[string]string{"segment.bytes": "1048576"}
	f.keep, f.drop, f.aged = topicSpec{"full-keep", 2, segments}, topicSpec{"full-drop", 1, segments}, topicSpec{"full-aged", 1, segments}
	for _, t := range []topicSpec{f.keep, f.drop, f.aged} {
		if err := f.l.catalogue.createForSure(ctx, t); err != nil {
			return err
		}
	}
	var err error
	if f.cl, err = f.l.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.ProducerLinger(0)); err != nil {
		return err
	}
	defer f.cl.Close()
	// One producer with endless patience beside the one that takes no for an answer.
	if err := f.l.startProducer(producer{id: 2, topic: f.keep, idempotent: true, minBytes: 100, maxBytes: 1000, perSecond: 20}); err != nil {
		return err
	}
	for _, t := range []topicSpec{f.drop, f.aged} {
		if err := f.fill(ctx, t, fillTopic); err != nil {
			return fmt.Errorf("before the disk is full: %w", err)
		}
	}
	if err := f.others(); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"deleting a topic", f.deleteTopic},
		{"retention", f.limitRetention},
		{"other files leaving", func(context.Context) error { return os.Remove(f.ballast) }},
	}
	for _, s := range steps {
		if err := f.untilRefused(ctx); err != nil {
			return fmt.Errorf("before %s: %w", s.name, err)
		}
		if err := f.l.readAll(ctx, f.keep); err != nil {
			return fmt.Errorf("reading from a full disk: %w", err)
		}
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s on a full disk: %w", s.name, err)
		}
		begin := time.Now()
		if err := f.untilAccepted(ctx, s.name); err != nil {
			return fmt.Errorf("after %s: %w", s.name, err)
		}
		if f.broker.PID() != f.pid {
			return errors.New("the broker did not live through it")
		}
		fmt.Printf("  refused when full; accepted again %.1f s after %s\n", time.Since(begin).Seconds(), s.name)
	}
	return nil
}

// others puts files of somebody else on the disk.
func (f *filling) others() error {
	free, err := f.disk.free()
	if err != nil {
		return err
	}
	file, err := os.Create(f.ballast)
	if err != nil {
		return err
	}
	defer file.Close()
	if free <= fillLeft {
		return fmt.Errorf("only %d MiB free before the test fills the disk", free>>20)
	}
	return unix.Fallocate(int(file.Fd()), 0, 0, free-fillLeft)
}

// one sends one record of 60 KB and waits for its answer.
func (f *filling) one(t topicSpec) error { return f.several(t, 1) }

// several sends n records of 60 KB at once and waits for all answers; it returns
// the last error.
func (f *filling) several(t topicSpec, n int) (err error) {
	answers := make(chan error, n)
	p := producer{id: 1, topic: t}
	for range n {
		f.l.send(f.cl, p, check.Key{Producer: 1, Seq: f.seq}, int32(f.seq)%t.partitions, 60_000, func(err error) { answers <- err })
		f.seq++
	}
	for range n {
		if e := <-answers; e != nil {
			err = e
		}
	}
	return err
}

func (f *filling) fill(ctx context.Context, t topicSpec, bytes int) error {
	for n := 0; n < bytes; n += 60_000 {
		if err := errors.Join(ctx.Err(), f.one(t)); err != nil {
			return err
		}
	}
	return nil
}

var aboutSpace = regexp.MustCompile(`(?i)full|space|ENOSPC`)

const (
	refusedInARow = 200
	burstRecords  = 64
)

// untilRefused produces until the broker says no many times in a row, each time
// in a way that tells clients to try again, with one line about it in its log.
func (f *filling) untilRefused(ctx context.Context) error {
	before, err := f.logLines()
	if err != nil {
		return err
	}
	row, kinds := 0, map[string]int{}
	burst := burstRecords // as fast as it goes, until the first refusal
	for end := time.Now().Add(2 * time.Minute); row < refusedInARow; {
		if time.Now().After(end) {
			return fmt.Errorf("not refused for good within two minutes (answers %v)", kinds)
		}
		err := f.several(f.keep, burst)
		var code *kerr.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			row = 0
		case errors.As(err, &code) && kerr.IsRetriable(err) && code != kerr.RequestTimedOut:
			row++
			kinds[code.Message]++
			burst = 1
		default:
			return fmt.Errorf("refused by %w, which does not tell a client to try again", err)
		}
	}
	after, err := f.logLines()
	if err != nil {
		return err
	}
	said := 0
	for _, line := range after[len(before):] {
		if aboutSpace.MatchString(line) {
			said++
		}
	}
	if f.o.broker.Ours() && (said == 0 || said > 5 || len(after)-len(before) > 50) {
		return fmt.Errorf("%d refusals gave %d log lines, %d of them about space; want one clear line", row, len(after)-len(before), said)
	}
	if f.fullFree, err = f.settled(ctx); err == nil && f.reserve > 0 && f.fullFree < f.reserve/2 {
		err = fmt.Errorf("%d MiB are free now that the broker refuses: it has run through most of its reserve of %d MiB", f.fullFree>>20, f.reserve>>20)
	}
	fmt.Printf("  refusals %v with %d MiB free, %d log lines about it\n", kinds, f.fullFree>>20, said)
	return err
}

// settled is the free space once it has stayed the same for a while: what was
// acknowledged before the first refusal is still moved from the journal to
// segments. It gives up waiting after 20 s.
func (f *filling) settled(ctx context.Context) (int64, error) {
	last, same := int64(-1), 0
	for end := time.Now().Add(20 * time.Second); same < 5 && time.Now().Before(end); {
		free, err := f.disk.free()
		if err != nil {
			return 0, err
		}
		same++
		if free != last {
			last, same = free, 0
		}
		if !pause(ctx, 300*time.Millisecond) {
			return 0, ctx.Err()
		}
	}
	return last, nil
}

// untilAccepted waits for the space that a step brought back, and for the broker
// to take records again. Where the step brought less than the broker wants free,
// the other files shrink a little as well.
func (f *filling) untilAccepted(ctx context.Context, step string) error {
	// Not all of the topic's bytes show: flushes that waited for space take some.
	if err := f.untilFree(ctx, f.fullFree+fillTopic/8); err != nil {
		return err
	}
	var last error
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if last = f.one(f.keep); last == nil {
			return nil
		}
		if st, err := os.Stat(f.ballast); err == nil && time.Since(begin) > 3*time.Second && !f.shrunk[step] {
			f.shrunk[step] = true
			if err := os.Truncate(f.ballast, max(st.Size()-fillLeft, 0)); err != nil {
				return err
			}
		}
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	free, err := f.disk.free()
	return errors.Join(fmt.Errorf("still refused after a minute, with %d MiB free on the disk: %w", free>>20, last), err)
}

// untilFree waits until the disk has that many bytes free.
func (f *filling) untilFree(ctx context.Context, bytes int64) error {
	for begin := time.Now(); ; {
		free, err := f.disk.free()
		if err != nil {
			return err
		}
		if free >= bytes {
			return nil
		}
		if time.Since(begin) > 30*time.Second {
			return fmt.Errorf("%d MiB free 30 s later, %d MiB when it was full", free>>20, f.fullFree>>20)
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (f *filling) logLines() ([]string, error) {
	b, err := os.ReadFile(f.broker.LogPath())
	return slices.Collect(strings.Lines(string(b))), err
}

func (f *filling) deleteTopic(ctx context.Context) error {
	cl, err := f.l.catalogue.once()
	if err != nil {
		return err
	}
	defer cl.Close()
	if outcome := f.l.catalogue.remove(ctx, cl, f.drop.name); outcome != check.Acked {
		return fmt.Errorf("the deletion was not acknowledged (outcome %d)", outcome)
	}
	return nil
}

// limitRetention gives the aged topic a limit and waits for its log start to move.
func (f *filling) limitRetention(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	cl, err := f.l.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	limit := "4000000"
	r, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.bytes", Value: &limit}}, f.aged.name)
	if err != nil {
		return err
	}
	if _, err := r.On(f.aged.name, func(c *kadm.AlterConfigsResponse) error { return c.Err }); err != nil {
		return err
	}
	for {
		starts, err := adm.ListStartOffsets(ctx, f.aged.name)
		if err != nil {
			return err
		}
		if o, ok := starts.Lookup(f.aged.name, 0); ok && o.Offset > 0 {
			return nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return errors.New("retention removed nothing within 90 s")
		}
	}
}
