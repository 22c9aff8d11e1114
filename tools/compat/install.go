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
)

// installer puts what the clients need into the cache, each unit once for as
// long as its manifest does not change.
type installer struct {
	root, cache string
	units       map[string]func(context.Context) error
	apt         sync.Mutex

	mu struct {
		sync.Mutex
		libs string // Kafka's jars
	}
}

func newInstaller(root string) *installer {
	in := &installer{root: root, cache: filepath.Join(root, "build", "cache", "compat")}
	in.units = map[string]func(context.Context) error{
		"go": in.installGo, "python": in.installPython, "rust": in.installRust,
		// Both are as old as Debian 12.
		"kcat":             func(ctx context.Context) error { return in.installDebian(ctx, "kcat") },
		"librdkafka-2.0.2": func(ctx context.Context) error { return in.installDebian(ctx, "python3-confluent-kafka") },
		"java":             in.installJava, "java-3.9": in.installJava39,
		"kafkajs": in.installKafkajs, "confluent-js": in.installConfluentJS,
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

// env is what the drivers find their dependencies by.
func (in *installer) env() []string {
	return append(os.Environ(), "COMPAT_JAVA_LIBS="+in.libs(), "COMPAT_CACHE="+in.cache, "PYTHONDONTWRITEBYTECODE=1")
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
	return commandEnv(ctx, dir, nil, name, args...)
}

func commandEnv(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
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

// installRust builds the driver from a copy in the cache, so that Cargo's lock
// file and output stay out of the source tree. The librdkafka that the crate
// brings is compiled once: the target folder outlives a change of the driver.
func (in *installer) installRust(ctx context.Context) error {
	if err := in.installDebian(ctx, "libzstd-dev", "zlib1g-dev"); err != nil {
		return err
	}
	files := []string{"Cargo.toml", "src/main.rs", "src/client.rs", "src/producer.rs", "src/consumer.rs"}
	var sources []string
	for _, f := range files {
		sources = append(sources, in.source("rust", f))
	}
	return in.once("rust", sources, func() error {
		if err := os.Mkdir(in.path("rust", "src"), 0o755); err != nil {
			return err
		}
		for i, f := range files {
			b, err := os.ReadFile(sources[i])
			if err != nil {
				return err
			}
			if err := os.WriteFile(in.path("rust", f), b, 0o644); err != nil {
				return err
			}
		}
		return command(ctx, in.path("rust"), "cargo", "build", "--quiet", "--target-dir", in.path("rust-target"))
	})
}

// installDebian installs packages of the system. apt-get gives up when another
// one runs, so one runs at a time.
func (in *installer) installDebian(ctx context.Context, packages ...string) error {
	if command(ctx, "", "dpkg", append([]string{"-s"}, packages...)...) == nil {
		return nil
	}
	in.apt.Lock()
	defer in.apt.Unlock()
	install := append([]string{"install", "-y", "-q"}, packages...)
	if err := command(ctx, "", "apt-get", install...); err == nil {
		return nil
	}
	if err := command(ctx, "", "apt-get", "update", "-q"); err != nil {
		return err
	}
	return command(ctx, "", "apt-get", install...)
}
