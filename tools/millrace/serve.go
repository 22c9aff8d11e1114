package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/core"
	"millrace/core/config"
	"millrace/raftlog"
	"millrace/tools/cli"
)

// Exit codes of `millrace serve`.
const (
	exitRefused = 1 // the start was refused; the message says what to do
	exitFatal   = 2 // the storage failed: restart and replay
	exitAtOnce  = 130
)

// clientEnv are the environment variables that belong to the client commands.
var clientEnv = []string{"MILLRACE_BROKERS", "MILLRACE_USER", "MILLRACE_PASSWORD", "MILLRACE_CONFIG"}

// serveFlags are the flags of `millrace serve`.
type serveFlags struct {
	file, data, listen, admin string
	set                       []string
}

func serveCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker",
		Long: `Run the broker. Without any configuration it keeps its data in ./data and
listens on 127.0.0.1:9092 for Kafka clients and on 127.0.0.1:9644 for operators
(/metrics, /healthz, /readyz, /debug/pprof).

Every setting of docs/CONFIG.md can be given in a file (--config), in the
environment (MILLRACE_LOG_RETENTION_MS=1000) and with --set.

SIGTERM, SIGINT and SIGHUP (a terminal that is closed; not under nohup) stop it; a
second one stops it at once.

Exit codes: 0 stopped, 1 the start was refused and the message says why, 2 the
storage failed and a restart recovers, 130 stopped at once by a second signal.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return refused(fmt.Errorf("`millrace serve` takes no arguments, got %q; its flags begin with --, see `millrace serve --help`", args[0]))
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := f.load()
			if err != nil {
				return refused(err)
			}
			return serve(cfg, realDisk, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return refused(fmt.Errorf("%w; `millrace serve --help` lists the flags", err))
	})
	c.Flags().StringVar(&f.file, "config", os.Getenv("MILLRACE_CONFIG"), "configuration `FILE` (YAML)")
	c.Flags().StringVar(&f.data, "data", "", "data directory (data.dir)")
	c.Flags().StringVar(&f.listen, "listen", "", "`HOST:PORT` of the Kafka listener (listeners=PLAINTEXT://HOST:PORT)")
	c.Flags().StringVar(&f.admin, "admin", "", "`HOST:PORT` of the admin listener, or off (admin.listen)")
	c.Flags().StringArrayVar(&f.set, "set", nil, "any setting, as `NAME=VALUE`; may be repeated")
	return c
}

// load makes the configuration of file, environment and flags.
func (f *serveFlags) load() (*config.Config, error) {
	in := config.Input{Environ: os.Environ(), EnvIgnore: clientEnv, FileName: f.file}
	if f.file != "" {
		text, err := readFile(f.file)
		if err != nil {
			return nil, fmt.Errorf("the configuration file cannot be read: %w", err)
		}
		in.File = text
	}
	for _, kv := range f.set {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, fmt.Errorf("--set %q is not NAME=VALUE", kv)
		}
		in.Flags = append(in.Flags, config.Assignment{Name: name, Value: value})
	}
	if strings.Contains(f.listen, "://") {
		return nil, fmt.Errorf("--listen %q is not HOST:PORT; listeners with names are given as --set listeners=%s", f.listen, f.listen)
	}
	for _, short := range []struct{ name, value string }{
		{"data.dir", f.data}, {"admin.listen", f.admin}, {"listeners", plaintext(f.listen)},
	} {
		if short.value != "" {
			in.Flags = append(in.Flags, config.Assignment{Name: short.name, Value: short.value})
		}
	}
	return config.Load(in)
}

func plaintext(addr string) string {
	if addr == "" {
		return ""
	}
	return "PLAINTEXT://" + addr
}

// readFile reads no more than Load takes, so that a wrong path (a device, a
// log) is refused and not read for ever.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, config.FileBytesMax+1))
}

// refused is the error of a start that was refused: one message, exit code 1.
func refused(err error) error {
	return &cli.Error{Code: exitRefused, What: err.Error(), Err: err}
}

// disk puts something between the broker and its data directory.
type disk func(raftlog.FS) raftlog.FS

func realDisk(fs raftlog.FS) raftlog.FS { return fs }

// serve runs the broker until a signal or a failure of the storage.
func serve(cfg *config.Config, d disk, stdout, stderr io.Writer) error {
	limitMemory(cfg)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: logLevel(cfg)}))

	defer func() {
		if v := recover(); v != nil {
			if what, fatal := core.FatalText(v); fatal {
				cannotGoOn(log, what)
			}
			panic(v)
		}
	}()

	// Who reads the log may go away (`| tee`, a collector): that loses lines, and
	// must not end the broker, as Go would have it for stdout and stderr.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	// Never undone: with the default handling back, a second signal between the
	// end of the stop and the exit would kill the process with a signal's status.

	var started atomic.Bool
	stopping := make(chan struct{})
	go watchSignals(signals, &started, stopping, stderr)

	b, err := startBroker(cfg, d, log)
	if errors.Is(err, core.ErrStorageFailed) {
		return storageFailed(log, err)
	}
	if err != nil {
		return refused(err)
	}
	started.Store(true)
	b.greet(stdout)

	select {
	case <-stopping:
		log.Info("stopping")
	case err := <-b.failed():
		os.Exit(cli.ExitCode(storageFailed(log, err)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(cfg.Int("shutdown.timeout.ms"))*time.Millisecond)
	defer cancel()
	if err := b.stop(ctx); err != nil {
		return &cli.Error{Code: exitFatal, What: fmt.Sprintf("the broker did not stop cleanly: %v; a restart recovers all that was acknowledged", err), Err: err}
	}
	log.Info("stopped")
	return nil
}

// storageFailed tells the one line that matters and the exit code. Nothing is
// stopped in order: what was acknowledged is on disk, and the disk is not to be
// trusted with more.
func storageFailed(log *slog.Logger, err error) error {
	const what = "the storage failed: the broker stops now, and a restart recovers all that was acknowledged"
	log.Error(what, "error", err)
	return &cli.Error{Code: exitFatal, What: what, Err: err}
}

// cannotGoOn ends the process where it met what it must not go on with: a record
// that does not decode, no memory for I/O. Called on any goroutine.
func cannotGoOn(log *slog.Logger, what string) {
	log.Error("the broker cannot go on and stops now: restart it, which recovers all that was acknowledged; if it stops here again, keep a copy of the data directory and report this line", "error", what)
	os.Exit(exitFatal)
}

// sameSignal is how long after a signal another one counts as the same.
const sameSignal = 100 * time.Millisecond

// watchSignals closes stopping at the first signal and ends the process at the
// second. A signal during the start ends the process at once: recovery changes
// nothing that it cannot do again. Who signals the process and its group
// (timeout(1), wrappers that pass signals on) means one signal and not two: one
// that follows at once does not count.
func watchSignals(signals <-chan os.Signal, started *atomic.Bool, stopping chan<- struct{}, stderr io.Writer) {
	<-signals
	if !started.Load() {
		fmt.Fprintln(stderr, "millrace: stopped while starting")
		os.Exit(0)
	}
	close(stopping)
	for began := time.Now(); time.Since(began) < sameSignal; {
		<-signals
	}
	fmt.Fprintln(stderr, "millrace: stopped at once by a second signal")
	os.Exit(exitAtOnce)
}

func logLevel(cfg *config.Config) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(cfg.Text("log.level"))); err != nil {
		panic("BUG: log.level was not checked: " + err.Error())
	}
	return l
}
