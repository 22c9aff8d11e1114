package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

//fuzz:parses produce_report.go:newSplitter,next
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\nb\n"), "\n", uint16(100))
	f.Add([]byte("a<>>b<>"), "<>", uint16(3))
	f.Add([]byte{0, 0xff, 0}, "\x00", uint16(1))
	f.Add([]byte("too long\n"), "\n", uint16(2))
	f.Fuzz(func(t *testing.T, in []byte, delim string, limit uint16) {
		if delim == "" {
			return // the flag refuses it
		}
		got, err := split(bytes.NewReader(in), delim, int(limit))
		want := strings.Split(string(in), delim)
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		// Up to the first record that is too long, all are what they are.
		if i := slices.IndexFunc(want, func(s string) bool { return len(s) > int(limit) }); i >= 0 {
			if err == nil {
				t.Fatalf("record %d of %d bytes is taken, the limit is %d", i, len(want[i]), limit)
			}
			want = want[:i]
		} else if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q by %q gives %q, want %q", in, delim, got, want)
		}
	})
}

// FuzzParseFormat holds a format against a renderer that looks at one character
// after the other.
//
//fuzz:parses format.go:parseFormat,unescape,append,size,appendJSON,textOrBase64
func FuzzParseFormat(f *testing.F) {
	for _, s := range []string{"%v\\n", "%t %p %o %T %h %k %K %S %%", "\\x41", "%", "\\", "%s\\0\\r\\t\\\\"} {
		f.Add(s, []byte("key"), []byte("value"))
	}
	f.Add("%k", []byte{0xff}, []byte(nil))
	f.Fuzz(func(t *testing.T, s string, key, value []byte) {
		r := &kgo.Record{Topic: "t", Key: key, Value: value, Timestamp: time.UnixMilli(7), Headers: []kgo.RecordHeader{{Key: "h", Value: value}, {}}}
		if p, err := parseFormat(s); err == nil {
			out := p.append(nil, r)
			if !strings.ContainsAny(s, "%\\") && string(out) != s {
				t.Fatalf("%q prints %q", s, out)
			}
			if twice, err := parseFormat(s + s); err != nil || !bytes.Equal(twice.append(nil, r), append(out, out...)) {
				t.Fatalf("%q twice prints something else than itself twice: %v", s, err)
			}
		}
		line, err := appendJSON(nil, r)
		if err != nil || !utf8.Valid(line) || !json.Valid(line) {
			t.Fatalf("no JSON: %q, %v", line, err)
		}
	})
}

//fuzz:parses position.go:parsePosition,parseTime
func FuzzPosition(f *testing.F) {
	for _, s := range []string{"start", "END", "latest", "12", "-5", "@0", "@-90m", "@2024-02-29T12:00:00Z", "@2024-02-29 12:00", "@2024-02-29",
		"-9223372036854775808", "9223372036854775807", "@9999999999999999999h", ""} {
		f.Add(s)
	}
	now := time.UnixMilli(1_700_000_000_000)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePosition("--from", s, now)
		if err != nil {
			return
		}
		switch p.kind {
		case atOffset:
			if again, err := parsePosition("--from", strconv.FormatInt(p.n, 10), now); err != nil || again != p || p.n < 0 {
				t.Fatalf("%q is %+v, again %+v, %v", s, p, again, err)
			}
		case beforeEnd:
			if p.n <= 0 {
				t.Fatalf("%q is %d records before the end", s, p.n)
			}
		case atTime:
			if p.n >= 0 {
				if again, err := parsePosition("--from", "@"+strconv.FormatInt(p.n, 10), now); err != nil || again != p {
					t.Fatalf("%q is %+v, again %+v, %v", s, p, again, err)
				}
			}
		}
	})
}

// FuzzArguments reads a text as each of the arguments that have a syntax.
//
//fuzz:parses position.go:parsePartitions config.go:parseSettings,parseOwner,String options.go:brokerAddress format.go:unescape,unescapeAll
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"0,2,5-7", "7-5", "1-", "2147483647", "0-99999999", "a=b", "=b", "a==", "broker", "default", "0", "-1",
		"localhost", "[::1]:9092", "::1", "h:0", "h:70000", "h/x", "a\\n\\x41\\\\", "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if list, err := parsePartitions("--partitions", s); err == nil {
			if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) || len(list) > partitionsMax || list[0] < 0 {
				t.Fatalf("%q gives %d partitions, not sorted or not each once", s, len(list))
			}
		}
		if list, err := parseSettings("--set", []string{s}, "a=b"); err == nil && list[0].name+"="+list[0].value != s {
			t.Fatalf("%q is %q and %q", s, list[0].name, list[0].value)
		}
		if o, err := parseOwner("broker", s); err == nil && (o.topic != "" || o.broker < -1 || o.broker == -1 && s != "default") {
			t.Fatalf("%q is %s", s, o)
		}
		if a, err := brokerAddress(s); err == nil {
			_, port, err := net.SplitHostPort(a)
			if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 1 || n > math.MaxUint16 {
				t.Fatalf("%q is the address %q: %v", s, a, err)
			}
			if again, err := brokerAddress(a); err != nil || again != a {
				t.Fatalf("%q is %q, and that %q, %v", s, a, again, err)
			}
		}
		if !strings.Contains(s, "\\") {
			if out, err := unescapeAll("--delimiter", s); err != nil || out != s {
				t.Fatalf("%q without an escape is %q, %v", s, out, err)
			}
		} else if out, err := unescapeAll("--delimiter", s); err == nil && len(out) >= len(s) {
			t.Fatalf("%q is %q", s, out)
		}
	})
}
