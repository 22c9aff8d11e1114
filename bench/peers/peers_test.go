package peers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shellPeer is a process that answers nothing.
func shellPeer(t *testing.T, script string) *process {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &process{
		name: "shell", addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dataDir: dir, logPath: filepath.Join(dir, "log", "out"),
		command: func() *exec.Cmd { return exec.Command("sh", "-c", script) },
	}
}

func TestStartReportsAProcessThatEnds(t *testing.T) {
	p := shellPeer(t, "echo no disk; exit 3")
	_, err := p.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("Start = %v, want the exit status", err)
	}
	out, err := os.ReadFile(p.LogPath())
	if err != nil || string(out) != "no disk\n" {
		t.Fatalf("output %q, %v", out, err)
	}
	if p.PID() != 0 {
		t.Fatalf("PID = %d after the end", p.PID())
	}
}

func TestStartKillsAProcessThatNeverAnswers(t *testing.T) {
	p := shellPeer(t, "exec sleep 100")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Start(ctx); err == nil {
		t.Fatal("Start succeeded without an answer")
	}
	select {
	case <-p.Exited():
	default:
		t.Fatal("the process is still there")
	}
}

func TestPingWantsAnApiVersionsAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		ok     bool
	}{
		{"answer", []byte{0, 0, 0, 10, 0, 0, 0, 1, 0, 0}, true},
		{"error code", []byte{0, 0, 0, 10, 0, 0, 0, 1, 0, 35}, false},
		{"hangs up", nil, false},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var request [14]byte
			_, _ = conn.Read(request[:])
			_, _ = conn.Write(c.answer)
			conn.Close()
		}()
		if err := ping(l.Addr().String(), time.Second); (err == nil) != c.ok {
			t.Errorf("%s: ping = %v", c.name, err)
		}
		l.Close()
	}
}
