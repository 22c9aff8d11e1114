package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"millrace/bench/peers"
)

// installer puts what the clients need into the cache, each unit once for as
// long as its manifest does not change.
type installer struct {
	root, cache string
	units       map[string]func(context.Context) error

	mu struct {
		sync.Mutex
		libs string // Kafka's jars
	}
}

func newInstaller(root string) *installer {
	in := &installer{root: root, cache: filepath.Join(root, "build", "cache", "compat")}
	in.units = map[string]func(context.Context) error{
		"go": in.installGo, "python": in.installPython, "kafkajs": in.installNode, "java": in.installJava, "kcat": in.installKcat,
	}
	return in
}

// path is a place in the cache, source one beside this program.
func (in *installer) path(parts ...string) string {
	return filepath.Join(append([]string{in.cache}, parts...)...)
}

func (in *installer) source(parts ...string) string {
	return filepath.Join(append([]string{in.root, "tools", "compat", "clients"}, parts...)...)
}

func (in *installer) libs() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.libs
}

func (in *installer) classpath() string {
	return in.path("java") + string(os.PathListSeparator) + filepath.Join(in.libs(), "*")
}

// env is what the drivers find their dependencies by.
func (in *installer) env() []string {
	return append(os.Environ(), "COMPAT_JAVA_LIBS="+in.libs(), "COMPAT_NODE_MODULES="+in.path("kafkajs"), "PYTHONDONTWRITEBYTECODE=1")
}

// install runs the units that the clients need side by side and returns the
// errors by unit.
func (in *installer) install(ctx context.Context, tables []*table) map[string]error {
	failed := map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	started := map[string]bool{}
	for _, t := range tables {
		for _, c := range t.clients {
			if started[c.needs] {
				continue
			}
			started[c.needs] = true
			wg.Go(func() {
				if err := in.units[c.needs](ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed[c.needs] = err
					fmt.Fprintf(os.Stderr, "install %s: %v\n", c.needs, err)
				}
			})
		}
	}
	wg.Wait()
	return failed
}

// once runs f when the manifests' contents are not those of the last success.
func (in *installer) once(unit string, manifests []string, f func() error) error {
	h := sha256.New()
	for _, m := range manifests {
		b, err := os.ReadFile(m)
		if err != nil {
			return err
		}
		h.Write(b)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	mark := in.path(unit + ".installed")
	if b, err := os.ReadFile(mark); err == nil && string(b) == sum {
		return nil
	}
	if err := os.RemoveAll(in.path(unit)); err != nil {
		return err
	}
	if err := os.MkdirAll(in.path(unit), 0o755); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(sum), 0o644)
}

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(out))
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text[max(0, len(text)-500):])
	}
	return nil
}

func (in *installer) installGo(ctx context.Context) error {
	return command(ctx, in.source("go"), "go", "build", "-o", in.path("go", "clients"), ".")
}

func (in *installer) installPython(ctx context.Context) error {
	requirements := in.source("python", "requirements.txt")
	return in.once("python", []string{requirements}, func() error {
		if err := command(ctx, "", "python3", "-m", "venv", in.path("python")); err != nil {
			return err
		}
		return command(ctx, "", in.path("python", "bin", "pip"), "install", "-q", "-r", requirements)
	})
}

func (in *installer) installNode(ctx context.Context) error {
	manifests := []string{in.source("kafkajs", "package.json"), in.source("kafkajs", "package-lock.json")}
	return in.once("kafkajs", manifests, func() error {
		for _, m := range manifests {
			b, err := os.ReadFile(m)
			if err != nil {
				return err
			}
			if err := os.WriteFile(in.path("kafkajs", filepath.Base(m)), b, 0o644); err != nil {
				return err
			}
		}
		return command(ctx, in.path("kafkajs"), "npm", "ci", "--no-audit", "--no-fund")
	})
}

func (in *installer) installJava(ctx context.Context) error {
	libs, err := peers.KafkaLibs("")
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.mu.libs = libs
	in.mu.Unlock()
	program := in.source("java", "Client.java")
	return in.once("java", []string{program}, func() error {
		return command(ctx, "", "javac", "-d", in.path("java"), "-cp", filepath.Join(libs, "*"), program)
	})
}

// installKcat takes the kcat of the system, or Debian's package.
func (in *installer) installKcat(ctx context.Context) error {
	if _, err := exec.LookPath("kcat"); err == nil {
		return nil
	}
	if err := command(ctx, "", "apt-get", "install", "-y", "-q", "kcat"); err == nil {
		return nil
	}
	if err := command(ctx, "", "apt-get", "update", "-q"); err != nil {
		return err
	}
	return command(ctx, "", "apt-get", "install", "-y", "-q", "kcat")
}
