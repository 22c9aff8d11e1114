package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// suite is a client library whose tests run against a broker at brokerAddr.
type suite struct {
	name            string
	module, version string
	// packages are folders of the module: those with tests that talk to a broker.
	packages []string
	// env is what points the tests at the broker.
	env func(o options) []string
}

// The addresses are given by kafka-go's tests, which also want broker 1.
const (
	brokerAddr = "localhost:9092"
	saslAddr   = "localhost:9093" // the reference's listener with SASL
)

var suiteTable = []suite{
	{
		name: "franz-go", module: "github.com/twmb/franz-go", version: "v1.22.3", packages: []string{"pkg/kgo"},
		env: func(o options) []string {
			env := []string{"KGO_SEEDS=" + brokerAddr, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=" + strconv.Itoa(o.records), "KGO_LOG_LEVEL=none"}
			if o.broker.Peer == "kafka" { // no other broker has SASL; without these the tests are skipped
				env = append(env, "KGO_TEST_SCRAM_SEEDS="+saslAddr, "KGO_TEST_SCRAM=adminscram256:admin-secret-256", "KGO_TEST_OAUTH_SEEDS="+saslAddr)
			}
			return env
		},
	},
	{
		name: "kafka-go", module: "github.com/segmentio/kafka-go", version: "v0.4.51",
		packages: []string{".", "compress", "sasl", "topics"},
		env: func(options) []string {
			// Its authors skip that part on every newer Kafka as well.
			return []string{"KAFKA_VERSION=4.4.0", "KAFKA_SKIP_NETTEST=1"}
		},
	},
}

func suiteNames() []string {
	var names []string
	for _, s := range suiteTable {
		names = append(names, s.name)
	}
	return names
}

// pickSuites keeps the named suites; no names: all.
func pickSuites(names string) ([]suite, error) {
	if names == "" {
		return suiteTable, nil
	}
	var out []suite
	for n := range strings.SplitSeq(names, ",") {
		found := false
		for _, s := range suiteTable {
			if s.name == n {
				out, found = append(out, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no suite %q; there are %s", n, strings.Join(suiteNames(), ", "))
		}
	}
	return out, nil
}

// buildOf is a suite ready to run.
type buildOf struct {
	suite    suite
	packages []builtPackage
}

type builtPackage struct {
	folder string   // of the module
	dir    string   // where the tests run
	binary string   // test binary
	tests  []string // top-level tests, in the binary's order
}

// build copies the suite's module out of the module cache, where nothing may be
// written, and compiles the tests of its packages.
func build(ctx context.Context, s suite, dir string) (*buildOf, error) {
	source, err := moduleDir(ctx, s)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(dir, s.name)
	if err := copyTree(source, work); err != nil {
		return nil, err
	}
	b := &buildOf{suite: s}
	for i, folder := range s.packages {
		p := builtPackage{folder: folder, dir: filepath.Join(work, folder), binary: filepath.Join(dir, fmt.Sprintf("%s-%d.test", s.name, i))}
		if _, err := output(ctx, p.dir, "go", "test", "-mod=mod", "-c", "-o", p.binary, "."); err != nil {
			return nil, err
		}
		list, err := output(ctx, p.dir, p.binary, "-test.list", ".")
		if err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(list) {
			if strings.HasPrefix(name, "Test") {
				p.tests = append(p.tests, name)
			}
		}
		if len(p.tests) == 0 {
			return nil, fmt.Errorf("%s holds no tests", folder)
		}
		b.packages = append(b.packages, p)
	}
	return b, nil
}

func moduleDir(ctx context.Context, s suite) (string, error) {
	out, err := output(ctx, "", "go", "mod", "download", "-json", s.module+"@"+s.version)
	if err != nil {
		return "", err
	}
	var m struct{ Dir, Error string }
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	if m.Error != "" || m.Dir == "" {
		return "", fmt.Errorf("go mod download %s@%s: %s", s.module, s.version, m.Error)
	}
	return m.Dir, nil
}

// output runs a command and returns what it printed.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		text := ""
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			text = strings.TrimSpace(string(e.Stderr))
		}
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return string(out), nil
}

// copyTree copies regular files and folders, writable.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(dest, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, text, 0o644)
	})
}
