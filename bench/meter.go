package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// meter counts the CPU time that a broker and this process use.
type meter struct {
	pid         int
	begin       time.Time
	broker, own float64
}

// used is in seconds.
type used struct{ seconds, broker, own float64 }

func startMeter(pid int) (m meter, err error) {
	m = meter{pid: pid, begin: time.Now()}
	if m.broker, err = cpuSeconds(pid); err != nil {
		return m, err
	}
	m.own, err = ownSeconds()
	return m, err
}

func (m meter) read() (u used, err error) {
	u.seconds = time.Since(m.begin).Seconds()
	if u.broker, err = cpuSeconds(m.pid); err != nil {
		return u, err
	}
	u.own, err = ownSeconds()
	u.broker, u.own = u.broker-m.broker, u.own-m.own
	return u, err
}

func (u *used) add(v used) {
	u.seconds, u.broker, u.own = u.seconds+v.seconds, u.broker+v.broker, u.own+v.own
}

// cpuSeconds is the CPU time that a process has used.
func cpuSeconds(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// After the name in parentheses: state is field 0, utime 11, stime 12, in
	// ticks of which Linux has a hundred a second on every platform.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat is too short")
	}
	var user, system float64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return (user + system) / 100, nil
}

func ownSeconds() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}
