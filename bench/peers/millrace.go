package peers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// MillraceOptions say how to run our own binary.
type MillraceOptions struct {
	Bin  string // the millrace binary; empty: build it from this module
	Dir  string // folder for the data directory and the output
	Data string // data directory; empty: Dir/data
	Addr string // host:port to listen on; empty: a free port of 127.0.0.1
	// Listen are listeners beside the plaintext one, as NAME://HOST:PORT.
	Listen []string
	Config []string // settings as name=value
	Env    []string // appended to the environment
}

// NewMillrace prepares our own broker; it does not start it.
func NewMillrace(o MillraceOptions) (Broker, error) {
	bin := o.Bin
	if bin == "" {
		b, err := BuildMillrace()
		if err != nil {
			return nil, err
		}
		bin = b
	}
	addr, err := listenAddr(o.Addr)
	if err != nil {
		return nil, err
	}
	admin, err := FreePort()
	if err != nil {
		return nil, err
	}
	p := &process{name: "millrace", addr: addr, admin: fmt.Sprintf("127.0.0.1:%d", admin), dataDir: o.Data, logPath: filepath.Join(o.Dir, "broker.log")}
	if p.dataDir == "" {
		p.dataDir = filepath.Join(o.Dir, "data")
	}
	p.command = func() *exec.Cmd {
		listeners := append([]string{"PLAINTEXT://" + p.addr}, o.Listen...)
		args := []string{"serve", "--data", p.dataDir, "--set", "listeners=" + strings.Join(listeners, ","), "--admin", p.admin}
		for _, kv := range o.Config {
			args = append(args, "--set", kv)
		}
		cmd := exec.Command(bin, args...)
		cmd.Env = append(cmd.Environ(), o.Env...)
		return cmd
	}
	return p, nil
}

// BuildMillrace builds tools/millrace into bin/millrace and returns its path.
func BuildMillrace() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin", "millrace")
	cmd := exec.Command("go", "build", "-o", bin, "./tools/millrace")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tools/millrace: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return bin, nil
}
