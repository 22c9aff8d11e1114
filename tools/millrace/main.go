// Command millrace is the one binary: `millrace serve` is the broker, the other
// commands are clients of the Kafka protocol (package tools/cli).
//
// The main goroutine reads the settings, joins the parts (broker.go) and then
// waits for a signal or for the storage to fail; everything else runs on the
// goroutines of the parts. It blocks on the disk while the data directory is
// recovered. What is durable is raftlog's promise. Read serveCommand first, then
// startBroker.
package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"millrace/tools/cli"
)

// version is set by the linker (-X main.version=...); without it the build
// information of the module is used.
var version = ""

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	return cli.Report(os.Stderr, root.Execute())
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace",
		Short:         "A message broker that speaks the Kafka protocol",
		Long:          "Millrace is a message broker that speaks the Kafka protocol.\n\nStart one with `millrace serve`; it needs no configuration.",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(serveCommand())
	for _, c := range cli.Commands(buildVersion()) {
		if c.Name() == "config" {
			c.AddCommand(docsCommand())
		}
		root.AddCommand(c)
	}
	cli.PrepareRoot(root)
	return root
}

// buildVersion is what the linker was told, else the module's version and
// revision as the Go tool recorded them.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, dirty := info.Main.Version, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && (v == "" || v == "(devel)"):
			v = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if v == "" || v == "(devel)" {
		return "unknown"
	}
	if len(v) == 12 {
		v += dirty
	}
	return v
}
