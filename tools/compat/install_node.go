package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

func (in *installer) installKafkajs(ctx context.Context) error {
	return in.installNode(ctx, "kafkajs")
}

// installConfluentJS builds the binding and the librdkafka that its package
// brings. The prebuilt binary of the package is not in the registry but on a
// site of its own, and would not be what the lock file pins. librdkafka takes
// OpenSSL and zstd from the system: linked statically it would fetch their
// sources from other sites. Node's headers are those of its installation.
func (in *installer) installConfluentJS(ctx context.Context) error {
	missing := func(header string) bool { return !exists(filepath.Join("/usr/include", header)) }
	if slices.ContainsFunc([]string{"zstd.h", "zlib.h", "openssl/ssl.h"}, missing) {
		if err := in.installDebian(ctx, "libzstd-dev", "zlib1g-dev", "libssl-dev"); err != nil {
			return err
		}
	}
	out, err := exec.CommandContext(ctx, "node", "-p", "path.dirname(path.dirname(process.execPath))").Output()
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	headers := strings.TrimSpace(string(out))
	if header := filepath.Join(headers, "include", "node", "node.h"); !exists(header) {
		return fmt.Errorf("@confluentinc/kafka-javascript is built with the headers of node, and there is no %s", header)
	}
	// The package compiles with "make -j"; the load bounds that.
	load := fmt.Sprintf("MAKEFLAGS=-l%d", runtime.NumCPU()+1)
	return in.installNode(ctx, "confluent-js", "npm_config_build_from_source=true", "npm_config_nodedir="+headers, "CKJS_LINKING=dynamic", load)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installNode installs what the lock file of a unit says; env is added to npm's
// environment.
func (in *installer) installNode(ctx context.Context, unit string, env ...string) error {
	manifests := []string{in.source("node", unit, "package.json"), in.source("node", unit, "package-lock.json")}
	return in.once(unit, manifests, func() error {
		for _, m := range manifests {
			b, err := os.ReadFile(m)
			if err != nil {
				return err
			}
			if err := os.WriteFile(in.path(unit, filepath.Base(m)), b, 0o644); err != nil {
				return err
			}
		}
		return commandEnv(ctx, in.path(unit), env, "npm", "ci", "--no-audit", "--no-fund")
	})
}

// nodeClient is the command line of a driver.
func nodeClient(script string) func(*installer) []string {
	return func(in *installer) []string { return []string{"node", in.source("node", script)} }
}
