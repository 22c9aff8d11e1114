package main

import (
	"bufio"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// coverage counts statements.
type coverage struct{ covered, total int }

func (c coverage) String() string {
	if c.total == 0 {
		return "nothing to cover"
	}
	return fmt.Sprintf("%5.1f%% of %d statements", 100*float64(c.covered)/float64(c.total), c.total)
}

// extent is a range of lines with its ends.
type extent struct{ from, to int }

// extents are the lines of the functions that p names; a method is named TYPE.NAME
// or NAME.
func (p part) extents() ([]extent, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, p.file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []extent
	missing := slices.Clone(p.names)
	for _, d := range f.Decls {
		fd, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		isNamed := func(n string) bool { return n == fd.Name.Name || n == receiver(fd)+"."+fd.Name.Name }
		if len(p.names) > 0 && !slices.ContainsFunc(p.names, isNamed) {
			continue
		}
		missing = slices.DeleteFunc(missing, isNamed)
		out = append(out, extent{set.Position(fd.Pos()).Line, set.Position(fd.End()).Line})
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s has no function %s", p.file, strings.Join(missing, ", "))
	}
	return out, nil
}

func receiver(fd *ast.FuncDecl) string {
	if fd.Recv == nil {
		return ""
	}
	e := fd.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// block is a run of statements as a profile names it.
type block struct {
	file string // import path and file name
	line int
	span string
}

// profile is the blocks of one run.
type profile struct {
	statements map[block]int
	hit        map[block]bool
}

var profileLine = regexp.MustCompile(`^(.+\.go):((\d+)\.\d+,\d+\.\d+) (\d+) (\d+)$`)

func readProfile(path string) (profile, error) {
	p := profile{make(map[block]int), make(map[block]bool)}
	f, err := os.Open(path)
	if err != nil {
		return p, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		m := profileLine.FindStringSubmatch(s.Text())
		if m == nil {
			continue
		}
		// The expression lets digits through only.
		line, _ := strconv.Atoi(m[3])
		b := block{m[1], line, m[2]}
		p.statements[b], _ = strconv.Atoi(m[4])
		p.hit[b] = p.hit[b] || m[5] != "0"
	}
	return p, s.Err()
}

// blocks are those of p that the target is for.
func (t *target) blocks(p profile) (map[block]int, error) {
	out := make(map[block]int)
	module, _, _ := strings.Cut(t.pkg, "/")
	for _, part := range t.parses {
		rel, err := filepath.Rel(t.module, part.file)
		if err != nil {
			return nil, err
		}
		extents, err := part.extents()
		if err != nil {
			return nil, err
		}
		for b, n := range p.statements {
			if b.file == module+"/"+filepath.ToSlash(rel) && slices.ContainsFunc(extents, func(e extent) bool { return b.line >= e.from && b.line <= e.to }) {
				out[b] = n
			}
		}
	}
	return out, nil
}

// measure runs the corpus, and with keep copies what of the cache adds to the
// coverage of the committed inputs into testdata.
func (r *result) measure(ctx context.Context, keep bool) error {
	tmp, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	c := corpus{t: r.target, tmp: tmp, dir: filepath.Join(tmp, "testdata", "fuzz", r.target.fn)}
	if err := c.build(ctx); err != nil {
		return err
	}
	if err := c.fill(ctx); err != nil {
		return err
	}
	if keep {
		if err := c.keep(ctx); err != nil {
			return err
		}
	}
	r.inputs = len(c.committed) + len(c.cached)
	p, err := c.run(ctx, "")
	if err != nil {
		return err
	}
	want, err := r.target.blocks(p)
	if err != nil {
		return err
	}
	for b, n := range want {
		r.coverage.total += n
		if p.hit[b] {
			r.coverage.covered += n
		}
	}
	return nil
}

// corpus is the inputs of a target, in a folder where its test binary finds them.
type corpus struct {
	t                 *target
	tmp, dir          string
	committed, cached []string // names
	cache             string
}

// build makes the test binary with counters in every package that t is for.
func (c *corpus) build(ctx context.Context) error {
	pkgs := []string{c.t.pkg}
	module, _, _ := strings.Cut(c.t.pkg, "/")
	for _, p := range c.t.parses {
		rel, err := filepath.Rel(c.t.module, filepath.Dir(p.file))
		if err != nil {
			return err
		}
		if pkg := module + "/" + filepath.ToSlash(rel); !slices.Contains(pkgs, pkg) {
			pkgs = append(pkgs, pkg)
		}
	}
	_, err := goCommand(ctx, "test", "-c", "-cover", "-coverpkg", strings.Join(pkgs, ","), "-o", c.binary(), c.t.pkg)
	return err
}

func (c *corpus) binary() string { return filepath.Join(c.tmp, "test") }

// fill copies the committed and the cached inputs.
func (c *corpus) fill(ctx context.Context) error {
	out, err := goCommand(ctx, "env", "GOCACHE")
	if err != nil {
		return err
	}
	c.cache = filepath.Join(strings.TrimSpace(string(out)), "fuzz", c.t.pkg, c.t.fn)
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if c.committed, err = c.copyAll(c.home()); err != nil {
		return err
	}
	all, err := c.copyAll(c.cache)
	c.cached = slices.DeleteFunc(all, func(n string) bool { return slices.Contains(c.committed, n) })
	return err
}

// home is where the committed inputs are.
func (c *corpus) home() string { return filepath.Join(c.t.dir, "testdata", "fuzz", c.t.fn) }

func (c *corpus) copyAll(from string) (names []string, err error) {
	entries, err := os.ReadDir(from)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(c.dir, e.Name())); err != nil {
			return nil, err
		}
		names = append(names, e.Name())
	}
	return names, nil
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// run plays the whole corpus, or one input of it.
func (c *corpus) run(ctx context.Context, input string) (profile, error) {
	match, out := "^"+c.t.fn+"$", filepath.Join(c.tmp, "profile")
	if input != "" {
		match += "/^" + regexp.QuoteMeta(input) + "$"
	}
	cmd := exec.CommandContext(ctx, c.binary(), "-test.run", match, "-test.coverprofile", out)
	cmd.Dir = c.tmp
	if text, err := cmd.CombinedOutput(); err != nil {
		return profile{}, fmt.Errorf("the corpus fails: %w\n%s", err, text)
	}
	return readProfile(out)
}

// keep copies inputs of the cache to testdata, the smallest first, as long as each
// adds a block to what those before it and the seeds have reached.
func (c *corpus) keep(ctx context.Context) error {
	if err := c.forget(c.cached); err != nil {
		return err
	}
	seeds, err := c.run(ctx, "")
	if err != nil {
		return err
	}
	if _, err := c.copyAll(c.cache); err != nil {
		return err
	}
	size := make(map[string]int64)
	for _, n := range c.cached {
		info, err := os.Stat(filepath.Join(c.dir, n))
		if err != nil {
			return err
		}
		size[n] = info.Size()
	}
	slices.SortFunc(c.cached, func(a, b string) int { return int(size[a] - size[b]) })
	kept := 0
	for _, n := range c.cached {
		p, err := c.run(ctx, n)
		if err != nil {
			return err
		}
		adds := false
		for b, hit := range p.hit {
			adds = adds || hit && !seeds.hit[b]
			seeds.hit[b] = seeds.hit[b] || hit
		}
		if !adds {
			continue
		}
		kept++
		if err := os.MkdirAll(c.home(), 0o755); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(c.dir, n), filepath.Join(c.home(), n)); err != nil {
			return err
		}
	}
	if kept > 0 {
		fmt.Printf("%s: %d of %d cached inputs are kept\n", c.t.name(), kept, len(c.cached))
	}
	return nil
}

func (c *corpus) forget(names []string) error {
	for _, n := range names {
		if err := os.Remove(filepath.Join(c.dir, n)); err != nil {
			return err
		}
	}
	return nil
}
