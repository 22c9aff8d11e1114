package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate go test -count=1 -run TestDocs . -rewrite

// Markdown is docs/CLI.md: every command with its flags, from the commands
// themselves.
func Markdown() string {
	root := &cobra.Command{Use: "millrace"}
	cmds := Commands("")
	root.AddCommand(cmds...)
	var b strings.Builder
	b.WriteString(markdownHead)
	b.WriteString("\n## Flags of every command\n\n`version` has only `--json`.\n\n")
	flagTable(&b, cmds[0].PersistentFlags())
	for _, c := range cmds {
		markdownOf(&b, c)
	}
	return b.String()
}

const markdownHead = `# Command line

This page is made from the commands themselves: ` + "`go test ./tools/cli -run TestDocs -rewrite`" + `
writes it. ` + "`millrace serve`" + ` and its settings are in [CONFIG.md](CONFIG.md).

The commands below are clients. They speak the public Kafka protocol and know
nothing of Millrace's internals, so they work on any Kafka too.

- **Which broker:** ` + "`--brokers HOST[:PORT],...`" + `, else the environment variable
  ` + "`MILLRACE_BROKERS`" + `, else 127.0.0.1:9092.
- **JSON:** ` + "`--json`" + ` prints one JSON document on stdout in place of a table (` + "`consume`" + `
  prints one object a line). Field names do not change within a major version; new
  ones may be added. Numbers that are not known are null.
- **Streams:** results go to stdout; errors, questions and progress go to stderr.
  What takes longer than two seconds shows its progress if stderr is a terminal or
  with ` + "`--progress`" + `.
- **Waiting:** connections get 5 s (` + "`--dial-timeout`" + `) and answers 10 s (` + "`--timeout`" + `),
  retries included. ` + "`--wait 30s`" + ` waits for a broker that is still starting. ` + "`produce`" + ` and ` + "`consume`" + ` last as long as their input or output,
  but give up when no broker can be reached for ` + "`--timeout`" + `.
- **Ctrl-C:** ` + "`produce`" + ` sends what it has read; ` + "`consume`" + ` commits what it has printed and
  leaves its group.
- **Login:** ` + "`--user`" + ` with ` + "`--password-file`" + ` (or ` + "`MILLRACE_USER`, `MILLRACE_PASSWORD`" + `).
- **Completion:** ` + "`source <(millrace completion bash)`" + `, with the package
  ` + "`bash-completion`" + `; zsh, fish and powershell likewise, ` + "`millrace completion --help`" + `
  tells more. Topics and groups are completed from the broker.

| exit code | meaning |
|---|---|
| 0 | done; for ` + "`consume`" + ` without ` + "`--count`, `--until` and `--until-end`" + ` also Ctrl-C |
| 1 | the broker refused, or a part of the work failed |
| 2 | wrong command, argument or flag value |
| 3 | a topic, partition, group, broker or setting that does not exist |
| 4 | no broker can be reached, or no answer in time |
| 5 | login failed, or no permission |
| 130 | interrupted by Ctrl-C or SIGTERM |

Those of ` + "`millrace serve`" + ` are in its ` + "`--help`" + `.
`

func markdownOf(b *strings.Builder, c *cobra.Command) {
	level := "##"
	if c.Parent() != nil && c.Parent().HasParent() {
		level = "###"
	}
	text := c.Short + "."
	if strings.HasPrefix(c.Long, c.Short) {
		text = c.Long
	} else if c.Long != "" {
		text += "\n\n" + c.Long
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", level, c.CommandPath(), text)
	if !c.HasSubCommands() {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	if own := c.LocalNonPersistentFlags(); own.HasAvailableFlags() {
		b.WriteString("\n")
		flagTable(b, own)
	}
	for _, sub := range c.Commands() {
		markdownOf(b, sub)
	}
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	b.WriteString("| flag | default | |\n|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		def := f.DefValue
		switch {
		case def == "" || def == "[]" || def == "false", def == "0" && strings.Contains(f.Usage, "(default"):
			def = ""
		default:
			def = "`" + def + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, def, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}
