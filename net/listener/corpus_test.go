package listener

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewriteCorpus = flag.Bool("rewrite-corpus", false, "write the fuzz corpus of streams anew")

// requestCorpus is the corpus of requests, KEY_vVERSION.
const requestCorpus = "../kafka/testdata/fuzz/FuzzRequests"

// TestCorpusHasEveryKey keeps the committed corpus of FuzzFraming to that of the
// requests: for each key one stream of its requests in every version, which comes
// in pieces of a size of its own.
func TestCorpusHasEveryKey(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(requestCorpus, "*_v*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no requests in %s: %v", requestCorpus, err)
	}
	streams := make(map[string][]byte)
	var keys []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		frame, err := strconv.Unquote(strings.TrimSuffix(strings.TrimPrefix(lines[1], "[]byte("), ")"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		key, _, _ := strings.Cut(filepath.Base(name), "_")
		if streams[key] == nil {
			keys = append(keys, key)
		}
		streams[key] = append(binary.BigEndian.AppendUint32(streams[key], uint32(len(frame))), frame...)
	}
	slices.Sort(keys)
	dir := filepath.Join("testdata", "fuzz", "FuzzFraming")
	if *rewriteCorpus {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for i, key := range keys {
		name := filepath.Join(dir, key)
		want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\nbyte(%q)\n", streams[key], byte(7*i))
		if *rewriteCorpus {
			if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is not what the requests ask for (%v): go test ./net/listener -run TestCorpus -rewrite-corpus", name, err)
		}
	}
}
