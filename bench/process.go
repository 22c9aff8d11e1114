package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
)

func start(ctx context.Context, b peers.Broker) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return b.Start(ctx)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// residentMiB lets the broker settle and takes its resident memory.
func residentMiB(ctx context.Context, b peers.Broker, settle time.Duration) (float64, error) {
	if err := wait(ctx, settle); err != nil {
		return 0, err
	}
	n, err := peers.ResidentBytes(b.PID())
	return float64(n) / (1 << 20), err
}

// measureIdle takes memory and disk of a broker that nobody has talked to.
func (b *bench) measureIdle(ctx context.Context, broker peers.Broker) (idle, error) {
	mem, err := residentMiB(ctx, broker, 5*time.Second)
	if err != nil {
		return idle{}, err
	}
	disk, err := diskMiB(broker.DataDir())
	return idle{Fresh: mem, DiskMiB: disk}, err
}

// diskMiB adds up the blocks that a folder's files take.
func diskMiB(dir string) (float64, error) {
	blocks := int64(0)
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // deleted in between
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			blocks += st.Blocks
		}
		return nil
	})
	return float64(blocks) * 512 / (1 << 20), err
}

// measureRestart writes data, kills the broker with SIGKILL right behind the last
// acknowledgement, and starts it. The data is spread over many partitions, so
// that none has enough of it to be moved out of a journal for its size.
func (b *bench) measureRestart(ctx context.Context, broker peers.Broker) (starts, error) {
	const partitions, size = 128, 16 << 10
	topic := fmt.Sprintf("restart-%d", time.Now().UnixNano())
	if err := createTopic(ctx, broker, topic, partitions); err != nil {
		return starts{}, err
	}
	total := int64(b.o.recoverMiB) << 20
	acked, err := flood(ctx, broker, topic, partitions, size, func(sent int64) bool { return sent < total })
	if err != nil {
		return starts{}, err
	}
	if err := broker.Kill(); err != nil {
		return starts{}, err
	}
	begin := time.Now()
	took, err := start(ctx, broker)
	if err != nil {
		return starts{}, err
	}
	// Eager, so that the time is the broker's and not the client's waiting.
	cl, err := open(broker, kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
	if err != nil {
		return starts{}, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
		if err = errors.Join(err, ends.Error()); err == nil {
			records := int64(0)
			ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
			if records < acked/size {
				return starts{}, fmt.Errorf("%d records after the start, %d were acknowledged", records, acked/size)
			}
			return starts{AfterKill: took.Seconds(), AfterKillAll: time.Since(begin).Seconds()}, nil
		}
		if werr := wait(ctx, 10*time.Millisecond); werr != nil {
			return starts{}, errors.Join(err, werr)
		}
	}
}
