package peers

import (
	"io"
	"os/exec"
	"syscall"
)

// Bind ties a process that is to be started to this program: it dies when this
// program does. It has a group of its own, so that an interrupt typed at this program
// is this program's to handle, and KillGroup reaches its children.
func Bind(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// KillGroup ends a process that was bound, with its children. Nothing is done where
// they have ended.
func KillGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// StartTalking starts a process that is bound and that is talked to: in is its
// standard input, out its standard output.
func StartTalking(cmd *exec.Cmd) (in io.WriteCloser, out io.Reader, err error) {
	Bind(cmd)
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	return in, out, cmd.Start()
}
