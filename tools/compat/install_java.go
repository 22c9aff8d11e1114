package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"millrace/bench/peers"
)

// installJava fetches Kafka 4.4, whose tools are clients too, and compiles the
// driver against its client.
func (in *installer) installJava(ctx context.Context) error {
	libs, err := peers.KafkaLibs("")
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.mu.libs = libs
	in.mu.Unlock()
	return in.compileJava(ctx, "java", libs)
}

// installJava39 does the same with kafka-clients 3.9, from the same source.
func (in *installer) installJava39(ctx context.Context) error {
	pom := in.source("java", "pom-3.9.xml")
	libs := in.path("java-3.9-libs")
	err := in.once("java-3.9-libs", []string{pom}, func() error {
		return command(ctx, "", "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+libs)
	})
	if err != nil {
		return err
	}
	return in.compileJava(ctx, "java-3.9", libs)
}

func (in *installer) compileJava(ctx context.Context, unit, libs string) error {
	sources, err := filepath.Glob(in.source("java", "*.java"))
	if err != nil {
		return err
	}
	return in.once(unit, sources, func() error {
		args := []string{"-Xlint:all", "-Werror", "--release", "17", "-d", in.path(unit), "-cp", filepath.Join(libs, "*")}
		return command(ctx, "", "javac", slices.Concat(args, sources)...)
	})
}

// javaClient is the command line of the driver with the client in libs.
func (in *installer) javaClient(unit, libs string) []string {
	classpath := in.path(unit) + string(os.PathListSeparator) + filepath.Join(libs, "*")
	return []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Client"}
}
