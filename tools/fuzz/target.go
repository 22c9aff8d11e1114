package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// target is one fuzz function.
type target struct {
	pkg    string // import path
	dir    string
	module string // folder of the module
	fn     string
	parses []part
}

// part is what of a file a target is for; no names mean all of it.
type part struct {
	file  string // absolute
	names []string
}

// name is PACKAGE.NAME with the package's path in the module.
func (t *target) name() string {
	_, rest, _ := strings.Cut(t.pkg, "/")
	return rest + "." + t.fn
}

// goCommand runs go and gives its output; what it complains of goes to stderr.
func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// findTargets reads the test files of all packages, in the order of go list.
func findTargets(ctx context.Context) ([]*target, error) {
	out, err := goCommand(ctx, "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Module", "./...")
	if err != nil {
		return nil, err
	}
	var all []*target
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir           string
			TestGoFiles, XTestGoFiles []string
			Module                    struct{ Dir string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			found, err := readTargets(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			for fn, parses := range found {
				t := &target{pkg: p.ImportPath, dir: p.Dir, module: p.Module.Dir, fn: fn}
				if t.parses, err = t.resolve(parses); err != nil {
					return nil, fmt.Errorf("%s: %w", t.name(), err)
				}
				all = append(all, t)
			}
		}
		slices.SortStableFunc(all, func(a, b *target) int { return strings.Compare(a.name(), b.name()) })
	}
}

const directive = "//fuzz:parses "

// readTargets gives the fuzz functions of a file with what they are for.
func readTargets(path string) (map[string]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := make(map[string]string)
	for _, d := range f.Decls {
		fd, ok := d.(*ast.FuncDecl)
		if !ok || fd.Recv != nil || !strings.HasPrefix(fd.Name.Name, "Fuzz") {
			continue
		}
		var parses []string
		if fd.Doc != nil {
			for _, c := range fd.Doc.List {
				if rest, ok := strings.CutPrefix(c.Text, directive); ok {
					parses = append(parses, rest)
				}
			}
		}
		if len(parses) == 0 {
			return nil, fmt.Errorf("%s: %s does not say what it is for: add a line %sFILE[:FUNC,...]", path, fd.Name.Name, directive)
		}
		found[fd.Name.Name] = strings.Join(parses, " ")
	}
	return found, nil
}

// resolve reads FILE[:FUNC,...] ... .
func (t *target) resolve(text string) (parts []part, err error) {
	for _, word := range strings.Fields(text) {
		file, names, some := strings.Cut(word, ":")
		p := part{file: filepath.Join(t.dir, file)}
		if strings.HasPrefix(file, "/") {
			p.file = filepath.Join(t.module, file)
		}
		if some {
			p.names = strings.Split(names, ",")
		}
		if _, err := p.extents(); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// fuzzed is what the go command says of a run.
type fuzzed struct {
	execs int64
	found int // inputs that reached something new
}

var progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)

// minimize bounds how often an input that reaches something new is run to make it
// smaller. The go command's default, a minute, is most of the time that a target has
// as long as its corpus grows.
const minimize = "100x"

// fuzz runs the target for its time, and passes the go command's output on.
func (t *target) fuzz(ctx context.Context, o options) (fuzzed, error) {
	fmt.Printf("fuzz %s %s\n", t.name(), o.time)
	args := []string{"test", "-run", "^$", "-fuzz", "^" + t.fn + "$", "-fuzztime", o.time.String(), "-fuzzminimizetime", minimize}
	if o.parallel > 0 {
		args = append(args, "-parallel", strconv.Itoa(o.parallel))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fuzzed{}, err
	}
	if err := cmd.Start(); err != nil {
		return fuzzed{}, err
	}
	var f fuzzed
	var said []string
	last := ""
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // the end, or what Wait tells
		}
		line = strings.TrimSuffix(line, "\n")
		if m := progress.FindStringSubmatch(line); m != nil {
			// The expression lets digits through only.
			f.execs, _ = strconv.ParseInt(m[1], 10, 64)
			f.found, _ = strconv.Atoi(m[2])
			last = line
			continue
		}
		fmt.Println(line)
		if len(said) < linesMax {
			said = append(said, line)
		}
	}
	fmt.Println(last)
	err = cmd.Wait()
	if err != nil && t.onlyEnded(said) {
		fmt.Println("no input failed: the time was over, which this version of go takes for a failure")
		return f, nil
	}
	return f, err
}

// linesMax is how many lines of a run are kept; a run without a crash has about six.
const linesMax = 100

// onlyEnded reports whether a failed run says no more than that its time was over:
// go before 1.27 at times takes the deadline that -fuzztime sets for the error of a
// worker (golang/go#75804). A target that crashes, fails or hangs says so in other
// words, and where its input is.
func (t *target) onlyEnded(said []string) bool {
	i := slices.IndexFunc(said, func(l string) bool { return strings.HasPrefix(l, "--- FAIL: "+t.fn+" (") })
	if i < 0 || i+3 > len(said) || said[i+1] != "    context deadline exceeded" || said[i+2] != "FAIL" {
		return false
	}
	return len(said) < linesMax && !slices.ContainsFunc(slices.Delete(slices.Clone(said), i, i+1), func(l string) bool {
		return strings.Contains(l, "--- FAIL") || strings.Contains(l, "Failing input") || strings.Contains(l, "panic:")
	})
}
