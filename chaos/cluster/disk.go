package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// disk is a small file system of its own: ext4 in a loop device, or tmpfs.
type disk struct {
	// Immutable.
	kind  string // "ext4" or "tmpfs"
	image string // backing file of ext4
	at    string // mount point
	bytes int64

	loop    string // device while attached
	mounted bool
}

func sh(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return strings.TrimSpace(string(out)), nil
}

// newDisk makes and mounts a file system in dir. The caller closes it whatever
// happens, also after an error.
func newDisk(dir, kind string, bytes int64) (*disk, error) {
	d := &disk{kind: kind, image: filepath.Join(dir, "disk.img"), at: filepath.Join(dir, "mnt"), bytes: bytes}
	if err := os.MkdirAll(d.at, 0o755); err != nil {
		return d, err
	}
	if kind == "ext4" {
		f, err := os.Create(d.image)
		if err != nil {
			return d, err
		}
		if err := errors.Join(f.Truncate(bytes), f.Close()); err != nil {
			return d, err
		}
		if d.loop, err = sh("losetup", "--find", "--show", d.image); err != nil {
			return d, err
		}
		if _, err := sh("mkfs.ext4", "-q", "-m", "0", d.loop); err != nil {
			return d, err
		}
	}
	return d, d.mount()
}

func (d *disk) mount() error {
	var err error
	if d.kind == "tmpfs" {
		_, err = sh("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", d.bytes), "tmpfs", d.at)
	} else {
		_, err = sh("mount", "-t", "ext4", d.loop, d.at)
	}
	d.mounted = err == nil
	return err
}

// umount waits for files of a process just killed to be let go.
func (d *disk) umount() error {
	if !d.mounted {
		return nil
	}
	var err error
	for range 100 {
		if err = unix.Unmount(d.at, 0); err == nil {
			d.mounted = false
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("umount %s: %w", d.at, err)
}

// FS_IOC_SHUTDOWN of the kernel, and its flag for "do not flush the journal".
const (
	fsIocShutdown        = 0x8004587d
	goingFlagsNoLogFlush = 2
)

// cut shuts the file system down as a power cut would: nothing that is not on
// the device yet gets there, and every later write fails.
func (d *disk) cut() error {
	f, err := os.Open(d.at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), fsIocShutdown, goingFlagsNoLogFlush); err != nil {
		return fmt.Errorf("shut down %s: %w", d.at, err)
	}
	return nil
}

// close unmounts and detaches everything that is there.
func (d *disk) close() error {
	err := d.umount()
	if d.mounted {
		_, lazy := sh("umount", "--lazy", d.at)
		err = errors.Join(err, lazy)
	}
	if d.loop != "" {
		_, detach := sh("losetup", "--detach", d.loop)
		err = errors.Join(err, detach)
		d.loop = ""
	}
	return err
}

// free is the space that is left for unprivileged writers, in bytes.
func (d *disk) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.at, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// powercut is the subcommand.
func powercut(ctx context.Context, o options) (err error) {
	dir, err := workdir(o, "powercut")
	if err != nil {
		return err
	}
	d, err := newDisk(dir, "ext4", 4<<30)
	defer func() { err = errors.Join(err, d.close()) }()
	if err != nil {
		return err
	}
	b, err := o.newBroker(dir, filepath.Join(d.at, "data"))
	if err != nil {
		return err
	}
	defer b.Kill()
	if o.broker.Peer == "kafka" {
		// Freshly formatted; only what happens under load shall be at risk.
		unix.Sync()
	}
	log, err := clientLog(dir)
	if err != nil {
		return err
	}
	defer log.Close()
	t := &tormentor{o: o, broker: b, cutsPower: true, clientLog: log, bursts: []string{"", "create", "delete", "roll"}}
	t.crash = func() error {
		if err := d.cut(); err != nil {
			return err
		}
		if err := errors.Join(b.Kill(), d.umount()); err != nil {
			return err
		}
		return d.mount()
	}
	err = t.run(ctx)
	if err != nil {
		// The mount goes away with this process: keep a copy of the data.
		_, copyErr := sh("cp", "-a", "--sparse=always", filepath.Join(d.at, "data"), filepath.Join(dir, "data-of-the-failed-run"))
		err = errors.Join(err, copyErr)
	}
	if concluded := conclude(t, filepath.Join(dir, "none"), err); concluded != nil {
		return concluded
	}
	return errors.Join(b.Kill(), d.close(), os.RemoveAll(dir))
}
