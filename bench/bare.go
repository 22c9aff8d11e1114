package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bare is the disk without a broker: a pre-written file, opened for direct I/O.
type bare struct {
	f     *os.File
	bytes int64
	at    int64
	small []byte // one sector-aligned block of 4 KiB
	large []byte // 1 MiB, aligned
}

const (
	blockBytes = 4096
	largeBytes = 1 << 20
)

// openBare writes the file in full and syncs it, so that later writes allocate
// nothing.
func openBare(path string, bytes int64) (*bare, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC|unix.O_DIRECT, 0o644)
	if err != nil {
		return nil, fmt.Errorf("the disk to measure must allow direct I/O: %w", err)
	}
	d := &bare{f: f, bytes: bytes, small: aligned(blockBytes), large: aligned(largeBytes)}
	for at := int64(0); at < bytes; at += largeBytes {
		if _, err := f.WriteAt(d.large, at); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, f.Sync()
}

// aligned returns n bytes at an address that direct I/O accepts, filled with
// something that no device compresses away.
func aligned(n int) []byte {
	b := make([]byte, n+blockBytes)
	skip := blockBytes - int(uintptr(unsafe.Pointer(&b[0]))%blockBytes)
	b = b[skip : skip+n]
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func (d *bare) close() error { return errors.Join(d.f.Close(), os.Remove(d.f.Name())) }

// append writes b behind the last write, from the start again at the end, and
// syncs.
func (d *bare) append(b []byte) error {
	if d.at+int64(len(b)) > d.bytes {
		d.at = 0
	}
	if _, err := d.f.WriteAt(b, d.at); err != nil {
		return err
	}
	d.at += int64(len(b))
	return unix.Fdatasync(int(d.f.Fd()))
}

// latency appends a block rate times a second; 1 KiB takes a block of 4 KiB.
// As for the broker, what is late is counted from when it was due; like a
// journal, one write takes all that is due by then.
func (d *bare) latency(ctx context.Context, rate int, span time.Duration) (latency, error) {
	l := newLatencies()
	d.at = 0
	begin := time.Now()
	l.from = begin.Add(warmUp)
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(rate)) }
	for i := 0; ; {
		if ctx.Err() != nil {
			return latency{}, ctx.Err()
		}
		if due(i).After(l.from.Add(span)) {
			return l.result(span), nil
		}
		time.Sleep(time.Until(due(i)))
		first := i
		for now := time.Now(); !due(i).After(now); i++ {
		}
		blocks := min(((i-first)*1024+blockBytes-1)/blockBytes, largeBytes/blockBytes)
		if err := d.append(d.large[:max(blocks, 1)*blockBytes]); err != nil {
			return latency{}, err
		}
		for ; first < i; first++ {
			l.record(due(first), time.Now())
		}
	}
}

// throughput appends 1 MiB after the other, each with a sync.
func (d *bare) throughput(ctx context.Context, span time.Duration) (float64, error) {
	d.at = 0
	begin, bytes := time.Now(), 0
	for time.Since(begin) < span {
		if err := errors.Join(ctx.Err(), d.append(d.large)); err != nil {
			return 0, err
		}
		bytes += largeBytes
	}
	return float64(bytes) / 1e6 / time.Since(begin).Seconds(), nil
}
