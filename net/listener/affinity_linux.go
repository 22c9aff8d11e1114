package listener

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// pinThread binds the calling goroutine to its thread and the thread to one of
// the cores that the process may use, the n-th.
func pinThread(n int) error {
	runtime.LockOSThread()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return fmt.Errorf("reading the cores that may be used: %w", err)
	}
	n %= max(allowed.Count(), 1)
	for cpu := 0; cpu < 8*len(allowed)*8; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		if n == 0 {
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				return fmt.Errorf("binding a loop to core %d: %w", cpu, err)
			}
			return nil
		}
		n--
	}
	return nil
}
