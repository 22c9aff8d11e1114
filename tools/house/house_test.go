package house

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type goPackage struct {
	ImportPath   string
	Doc          string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path, Dir string }
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,Dir,GoFiles,Imports,TestImports,XTestImports,Module", "millrace/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// mayImport lists, per top-level folder, the folders of ours that its code may
// import. chaos/cluster and bench drive the broker from outside.
var mayImport = map[string][]string{
	"core":          {"core"},
	"raftlog":       {"core", "raftlog"},
	"shard":         {"core", "raftlog", "shard"},
	"coordinator":   {"core", "coordinator"},
	"net":           {"core", "raftlog", "shard", "net"},
	"tools":         {"core", "raftlog", "shard", "coordinator", "net", "tools", "bench/peers", "chaos/check"},
	"bench":         {"bench"},
	"bench/journal": {"core", "raftlog"}, // drives the journal alone, to compare the broker with
	"chaos/check":   {"chaos/check"},
	"chaos/sim":     {"core", "raftlog", "shard", "coordinator", "chaos/sim", "chaos/check"},
	"chaos/cluster": {"chaos/cluster", "chaos/check", "bench/peers"},
	"chaos/hostile": {"chaos/hostile", "bench/peers"},
	"docs":          {},
}

func folderOf(importPath string) string {
	rest := strings.TrimPrefix(importPath, "millrace/")
	parts := strings.Split(rest, "/")
	if (parts[0] == "chaos" || parts[0] == "bench") && len(parts) > 1 {
		if two := parts[0] + "/" + parts[1]; mayImport[two] != nil || parts[0] == "chaos" || two == "bench/peers" {
			return two
		}
	}
	return parts[0]
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		from := folderOf(p.ImportPath)
		key := from
		if from == "bench/peers" {
			key = "bench"
		}
		allowed, ok := mayImport[key]
		if !ok {
			t.Errorf("%s: no rule says what %s may import", p.ImportPath, from)
			continue
		}
		for _, im := range p.Imports {
			if !strings.HasPrefix(im, "millrace/") {
				continue
			}
			to := folderOf(im)
			if slices.Contains(allowed, to) || to == "bench/peers" && key == "bench" {
				continue
			}
			t.Errorf("%s imports %s: %s may import only %v", p.ImportPath, im, from, allowed)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		if len(p.Doc) < 20 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestNoPackageDirectlyInNetOrTools(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath == "millrace/net" || p.ImportPath == "millrace/tools" {
			t.Errorf("%s: packages live in folders below it", p.ImportPath)
		}
	}
}

// productionDrivers are the files in which a real clock moves the deterministic
// code; the simulator has its own instead.
var productionDrivers = []string{"raftlog/journal_run.go"}

// TestDeterministicPackagesUseNoClockChanceOrLock reads the imports and
// selectors of the packages that the simulator drives.
func TestDeterministicPackagesUseNoClockChanceOrLock(t *testing.T) {
	banned := map[string][]string{
		"time":         {"Now", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Since", "Until"},
		"sync":         {"Mutex", "RWMutex", "Cond"},
		"math/rand":    nil, // nil: all of it
		"math/rand/v2": nil,
		"crypto/rand":  nil,
	}
	for _, p := range packages(t) {
		switch folderOf(p.ImportPath) {
		case "core", "raftlog", "shard", "coordinator":
		default:
			continue
		}
		for _, name := range p.GoFiles {
			if slices.Contains(productionDrivers, folderOf(p.ImportPath)+"/"+name) {
				continue
			}
			checkDeterministic(t, filepath.Join(p.Dir, name), banned)
		}
	}
}

func checkDeterministic(t *testing.T, path string, banned map[string][]string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	local := map[string]string{} // local name -> import path
	for _, im := range f.Imports {
		ip := strings.Trim(im.Path.Value, `"`)
		names, isBanned := banned[ip]
		if !isBanned {
			continue
		}
		if names == nil {
			t.Errorf("%s imports %s", path, ip)
			continue
		}
		n := filepath.Base(ip)
		if im.Name != nil {
			n = im.Name.Name
		}
		local[n] = ip
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		if ip, ok := local[x.Name]; ok && slices.Contains(banned[ip], sel.Sel.Name) {
			t.Errorf("%s uses %s.%s", path, ip, sel.Sel.Name)
		}
		return true
	})
}

func root(t *testing.T) string {
	t.Helper()
	for _, p := range packages(t) {
		if p.Module != nil {
			return p.Module.Dir
		}
	}
	t.Fatal("no module directory")
	return ""
}

func TestFilesStayShort(t *testing.T) {
	const linesMax = 800
	dir := root(t)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "build" || n == ".git" || n == "data" || n == "bin" || n == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n := 0
		for s := bufio.NewScanner(f); s.Scan(); {
			n++
		}
		if n > linesMax {
			t.Errorf("%s has %d lines, at most %d: split it by subject", path, n, linesMax)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTopLevelHoldsOnlyWhatBelongs(t *testing.T) {
	allowed := []string{"core", "shard", "raftlog", "net", "coordinator", "bench", "chaos", "tools", "docs",
		"go.mod", "go.sum", "Makefile", "ARCHITECTURE.md", "README.md", "CHANGELOG.md", "LICENSE"}
	dir := root(t)
	out, err := exec.Command("git", "-C", dir, "ls-tree", "--name-only", "HEAD").Output()
	if err != nil {
		// A source archive has no history; its folder is then the tree.
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			if n := e.Name(); n != "bin" && n != "build" && n != "data" {
				names = append(names, n)
			}
		}
		out = []byte(strings.Join(names, "\n"))
	}
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasPrefix(name, ".") && !slices.Contains(allowed, name) {
			t.Errorf("the top level holds %s, which the layout does not know", name)
		}
	}
}
