package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// app is what the commands of one Commands call share: the connection flags.
type app struct {
	opts    options
	version string
}

// Commands returns the client commands, to be added to the root command of the
// binary. version is what `millrace version` prints and what the client tells
// brokers. A command's error is to be handed to Report.
func Commands(version string) []*cobra.Command {
	a := &app{version: version}
	cmds := []*cobra.Command{
		a.topicCommand(),
		a.groupCommand(),
		a.produceCommand(),
		a.consumeCommand(),
		a.clusterCommand(),
		a.configCommand(),
		a.versionCommand(),
	}
	for _, c := range cmds {
		quiet(c)
		c.SetFlagErrorFunc(flagError)
		if c.Name() != "version" {
			a.opts.addFlags(c)
		}
	}
	return cmds
}

// PrepareRoot makes the root command ready, once it has its commands. Flags may
// stand before the command (`millrace --json topic list`): the root is told their
// names, so that it knows which of them take a value when it looks for the
// command's; what they mean stays the command's matter. And a flag that the root
// does not know is wrong usage.
func PrepareRoot(root *cobra.Command) {
	for _, c := range root.Commands() {
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) {
			if root.Flags().Lookup(f.Name) == nil {
				known := *f
				known.Hidden = true
				root.Flags().AddFlag(&known)
			}
		})
	}
	root.SetFlagErrorFunc(flagError)
}

func flagError(c *cobra.Command, err error) error {
	return usagef("%v", err).hint("Run %q for the flags.", c.CommandPath()+" --help")
}

// quiet leaves printing of errors to Report, for the whole subtree.
func quiet(c *cobra.Command) {
	c.SilenceErrors, c.SilenceUsage = true, true
	for _, sub := range c.Commands() {
		quiet(sub)
	}
}

// family is a command that only holds subcommands: alone it prints its help, and
// an unknown subcommand is answered with the nearest one.
func family(use, short, long string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			var names []string
			for _, s := range cmd.Commands() {
				names = append(names, s.Name())
			}
			return usagef("%q is not a subcommand of %q", args[0], cmd.CommandPath()).
				hint("%s", didYouMean(args[0], names, "Subcommands: "+strings.Join(names, ", ")+"."))
		},
	}
	c.AddCommand(subs...)
	return c
}

// admin runs a command of requests and answers: all of it within --timeout.
func (a *app) admin(cmd *cobra.Command, fn func(context.Context, *session) error) error {
	return a.run(cmd, true, nil, fn)
}

// stream runs a command that lasts as long as its input or output.
func (a *app) stream(cmd *cobra.Command, extra []kgo.Opt, fn func(context.Context, *session) error) error {
	return a.run(cmd, false, extra, fn)
}

func (a *app) run(cmd *cobra.Command, limited bool, extra []kgo.Opt, fn func(context.Context, *session) error) error {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A reader that goes away (`| head`) is then an EPIPE from a write, and the
	// command can leave its group and commit.
	signal.Ignore(syscall.SIGPIPE)

	s, err := newSession(a, cmd)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.connect(ctx, extra); err != nil {
		return s.explain(ctx, err)
	}
	work := ctx
	if limited {
		var cancel context.CancelFunc
		work, cancel = context.WithTimeout(ctx, a.opts.timeout)
		defer cancel()
	}
	if err := fn(work, s); err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{a.version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			var err error
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(v)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "millrace %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// none refuses arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%q takes no arguments, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// takes asks for at least min and at most max arguments (max < 0: any number);
// what names them.
func takes(min, max int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < min:
			return usagef("%q needs %s", cmd.CommandPath(), what).hint("Usage: %s", cmd.UseLine())
		case max >= 0 && len(args) > max:
			return usagef("%q takes %s and nothing else, got %q", cmd.CommandPath(), what, args[max]).hint("Usage: %s", cmd.UseLine())
		}
		return nil
	}
}
