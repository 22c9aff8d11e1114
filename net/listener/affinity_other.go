//go:build !linux

package listener

import "runtime"

// pinThread binds the calling goroutine to its thread; threads cannot be bound
// to cores here.
func pinThread(int) error {
	runtime.LockOSThread()
	return nil
}
