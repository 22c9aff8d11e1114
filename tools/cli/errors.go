package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Exit codes of the client commands.
const (
	ExitOK           = 0
	ExitFailed       = 1   // the broker refused, or part of the work failed
	ExitUsage        = 2   // wrong command, argument or flag value
	ExitNotFound     = 3   // a topic, partition, group or key that does not exist
	ExitUnreachable  = 4   // no connection, or no answer in time
	ExitUnauthorized = 5   // login or permission
	ExitInterrupted  = 130 // Ctrl-C or SIGTERM
)

// Error is a failure as a person reads it: what was refused and why, then what
// to do about it.
type Error struct {
	Code int    // one of the Exit codes
	What string // one line
	Do   string // the next step; may be empty
	Err  error  // the cause; may be nil
}

func (e *Error) Error() string {
	if e.Do == "" {
		return e.What
	}
	return e.What + "\n  " + strings.ReplaceAll(e.Do, "\n", "\n  ")
}

func (e *Error) Unwrap() error { return e.Err }

func (e *Error) hint(format string, args ...any) *Error {
	e.Do = fmt.Sprintf(format, args...)
	return e
}

func (e *Error) cause(err error) *Error {
	e.Err = err
	return e
}

func failf(code int, format string, args ...any) *Error {
	return &Error{Code: code, What: fmt.Sprintf(format, args...)}
}

func usagef(format string, args ...any) *Error { return failf(ExitUsage, format, args...) }

// ExitCode is the exit code for what a command returned.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}

// Report prints the error of a command for a person, if there is one, and
// returns the exit code.
func Report(w io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	var e *Error
	if !errors.As(err, &e) && strings.HasPrefix(err.Error(), "unknown command") {
		// cobra's error for a wrong first word, with its suggestions one a line.
		what, more, _ := strings.Cut(err.Error(), "\n")
		near := strings.Fields(strings.TrimPrefix(strings.TrimSpace(more), "Did you mean this?"))
		do := "Run \"millrace --help\" for the commands."
		if len(near) > 0 {
			do = "Did you mean " + strings.Join(near, " or ") + "?"
		}
		err = usagef("%s", what).hint("%s", do)
	}
	fmt.Fprintf(w, "millrace: %v\n", err)
	return ExitCode(err)
}

func badChoice(flag, got string, allowed ...string) *Error {
	return usagef("%s: %q is not one of %s", flag, got, strings.Join(allowed, ", ")).
		hint("%s", didYouMean(got, allowed, ""))
}

func inRange[T int | int32 | int64 | float64 | time.Duration](flag string, v, min, max T) error {
	if v < min || v > max {
		show := func(v any) string {
			if f, ok := v.(float64); ok {
				return strconv.FormatFloat(f, 'f', -1, 64)
			}
			return fmt.Sprint(v)
		}
		return usagef("%s: %s is out of range, it must be %s to %s", flag, show(v), show(min), show(max))
	}
	return nil
}
