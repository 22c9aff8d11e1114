package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// print writes v as JSON where --json is given, else what text writes.
func (s *session) print(v any, text func(t *textOut)) error {
	if s.opts.json {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	t := &textOut{w: s.out}
	text(t)
	return t.err
}

// textOut writes tables and lines and keeps the first error.
type textOut struct {
	w   io.Writer
	err error
}

func (t *textOut) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

// table writes rows in aligned columns under a header. A last column ERROR is
// left out where no row has one.
func (t *textOut) table(header []string, rows [][]string) {
	if t.err != nil {
		return
	}
	if last := len(header) - 1; header[last] == "ERROR" &&
		!slices.ContainsFunc(rows, func(r []string) bool { return r[last] != "" }) {
		header = header[:last]
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{header}, rows...) {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush()
	for l := range strings.Lines(b.String()) {
		t.line("%s", strings.TrimRight(l, " \n"))
	}
}

// pairs writes names and values in two columns.
func (t *textOut) pairs(kv ...string) {
	var rows [][]string
	for i := 2; i+1 < len(kv); i += 2 {
		rows = append(rows, []string{kv[i] + ":", kv[i+1]})
	}
	t.table([]string{kv[0] + ":", kv[1]}, rows)
}

func num[T int | int16 | int32 | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// optional writes a number that may be missing.
func optional[T int | int16 | int32 | int64](n *T) string {
	if n == nil {
		return "-"
	}
	return num(*n)
}

func nums(ns []int32) string {
	if len(ns) == 0 {
		return "-"
	}
	var out []string
	for _, n := range ns {
		out = append(out, num(n))
	}
	return strings.Join(out, ",")
}

// dash stands for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// some makes a nil slice an empty one, so that JSON has [] and never null.
func some[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// joinSome lists up to n items and counts the rest.
func joinSome(items []string, n int) string {
	if len(items) <= n {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:n], ", "), len(items)-n)
}
