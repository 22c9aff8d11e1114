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
	d := &bare{f: f, bytes: bytes, large: aligned(largeBytes)}
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

// hugePages returns n bytes that sit on huge pages, where the system has any.
func hugePages(n int) (b []byte, free func() error, err error) {
	const page = 2 << 20
	mapped, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	skip := int(-uintptr(unsafe.Pointer(&mapped[0])) & (page - 1))
	b = mapped[skip : skip+n : skip+n]
	return b, func() error { return unix.Munmap(mapped) }, unix.Madvise(b, unix.MADV_HUGEPAGE)
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

// latency appends size bytes (at most 64 KiB) rate times a second for span after a
// warm-up and adds what it saw to times. As for the broker, what is late is counted
// from when it was due; like a journal, one write takes all that is due by then, up
// to 1 MiB.
func (d *bare) latency(ctx context.Context, rate, size int, warm, span time.Duration, times *latencies) error {
	pace, release := newPacer(time.Now(), rate)
	defer release()
	w := times.window(pace.begin.Add(warm), span)
	blocks := (size + blockBytes - 1) / blockBytes
	for i := 0; pace.due(i).Before(w.to); {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pace.waitFor(i)
		first := i
		for now := time.Now(); !pace.due(i).After(now) && (i-first+1)*blocks*blockBytes <= largeBytes; i++ {
		}
		if err := d.append(d.large[:(i-first)*blocks*blockBytes]); err != nil {
			return err
		}
		for now := time.Now(); first < i; first++ {
			w.record(pace.due(first), now)
		}
	}
	return nil
}

// sequential writes 1 MiB after the other, in MB/s; synced once at the end.
func (d *bare) sequential(ctx context.Context, span time.Duration) (float64, error) {
	d.at = 0
	begin, bytes := time.Now(), 0
	for ; time.Since(begin) < span; bytes += largeBytes {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if d.at+largeBytes > d.bytes {
			d.at = 0
		}
		if _, err := d.f.WriteAt(d.large, d.at); err != nil {
			return 0, err
		}
		d.at += largeBytes
	}
	err := unix.Fdatasync(int(d.f.Fd()))
	return float64(bytes) / 1e6 / time.Since(begin).Seconds(), err
}
