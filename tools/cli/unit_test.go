package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestDocs(t *testing.T) {
	const file = "../../docs/CLI.md"
	want := Markdown()
	if slices.Contains(os.Args, "-rewrite") {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/CLI.md is not what the commands say. Run: go test ./tools/cli -run TestDocs -rewrite")
	}
}

// TestEveryCommandIsExplained keeps the help and the documentation complete.
func TestEveryCommandIsExplained(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the one-line help is missing or ends in a full stop", c.CommandPath())
		}
		if !c.SilenceErrors || !c.SilenceUsage {
			t.Errorf("%s prints its errors itself", c.CommandPath())
		}
		for _, l := range strings.Split(c.Long+"\n"+c.Example, "\n") {
			if len(l) > 100 {
				t.Errorf("%s: a line of the help has %d characters", c.CommandPath(), len(l))
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	for _, c := range Commands("v") {
		visit(c)
	}
}

func TestCompletion(t *testing.T) {
	c := fakeCluster(t, kfake.SeedTopics(1, "payments"))
	if _, _, code := millrace("", "consume", "orders", "--group", "billing", "--until-end"); code != 0 {
		t.Fatal("no group was made")
	}
	for line, want := range map[string][]string{
		"topic describe ":                  {"orders", "payments"},
		"topic describe or":                {"orders"},
		"topic describe orders ":           {"payments"},
		"topic add-partitions orders ":     nil,
		"produce ":                         {"orders", "payments"},
		"consume orders --group ":          {"billing"},
		"group describe ":                  {"billing"},
		"group reset-offsets x --topic pa": {"payments"},
		"config get ":                      {"topic", "broker"},
		"config get topic p":               {"payments"},
		"config set broker ":               {"default"},
		"produce orders --compression ":    {"none", "gzip", "snappy", "lz4", "zstd"},
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		out, _, _ := millrace("", args...)
		var got []string
		for l := range strings.Lines(out) {
			if l = strings.TrimSpace(l); l != "" && l[0] != ':' {
				got = append(got, l)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q completes to %q, want %q", line, got, want)
		}
	}
	c.Close()
	out, _, _ := millrace("", "__complete", "topic", "describe", "")
	if strings.TrimSpace(out) != ":4" {
		t.Errorf("without a broker a topic completes to %q", out)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, _, code := millrace("", "completion", shell); code != 0 || !strings.Contains(out, "millrace") {
			t.Errorf("completion %s: exit code %d, %d bytes", shell, code, len(out))
		}
	}
}

func TestParsePosition(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	for in, want := range map[string]position{
		"start":                        {kind: atStart},
		"Beginning":                    {kind: atStart},
		"end":                          {kind: atEnd},
		"0":                            {kind: atOffset},
		"17":                           {kind: atOffset, n: 17},
		"-3":                           {kind: beforeEnd, n: 3},
		"@1234":                        {kind: atTime, n: 1234},
		"@-1s":                         {kind: atTime, n: 999_999_000},
		"@1s":                          {kind: atTime, n: 999_999_000},
		"@2020-01-02T03:04:05Z":        {kind: atTime, n: 1577934245000},
		"@2020-01-02T03:04:05.5+01:00": {kind: atTime, n: 1577930645500},
	} {
		if got, err := parsePosition("--from", in, now); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "1.5", "@", "@x", "--1", "@2020-13-01"} {
		if got, err := parsePosition("--from", in, now); err == nil {
			t.Errorf("%q is accepted as %+v", in, got)
		}
	}
}

func TestParsePartitions(t *testing.T) {
	for in, want := range map[string][]int32{"3": {3}, "0,2,5-7": {0, 2, 5, 6, 7}, "4,4,1": {1, 4}, "1-1": {1}} {
		if got, err := parsePartitions("-p", in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "3-1", "1-", "0-999999999", "99999999999"} {
		if got, err := parsePartitions("-p", in); err == nil {
			t.Errorf("%q is accepted as %v", in, got)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"orders", "orders-v2", "payments", "audit"}
	for in, want := range map[string][]string{
		"ordres": {"orders"}, "order": {"orders", "orders-v2"}, "Payments": {"payments"}, "zzz": nil, "a": nil, "": nil,
	} {
		if got := nearest(in, names); !slices.Equal(got, want) {
			t.Errorf("nearest to %q are %q, want %q", in, got, want)
		}
	}
}

func TestFormatRecord(t *testing.T) {
	r := &kgo.Record{
		Topic: "t", Partition: 3, Offset: 9, Timestamp: time.UnixMilli(1234), Key: []byte("k"), Value: nil,
		Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
	}
	for in, want := range map[string]string{
		"":                           "",
		"%t %p %o %T %k %v|%s %h %K": "t 3 9 1234 k | a=1,b= 1",
		`%S%%\n\t\x41\\\0\r`:         "-1%\n\tA\\\x00\r",
	} {
		f, err := parseFormat(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := string(f.append(nil, r)); got != want {
			t.Errorf("%q prints %q, want %q", in, got, want)
		}
	}
	line, err := appendJSON(nil, &kgo.Record{Topic: "t", Timestamp: time.UnixMilli(1234), Key: []byte{0xff}, Value: []byte("<v>")})
	want := `{"topic":"t","partition":0,"offset":0,"timestamp":"1970-01-01T00:00:01.234Z","timestamp_ms":1234,"key":null,"key_base64":"/w==","value":"\u003cv\u003e","headers":[]}` + "\n"
	if err != nil || string(line) != want {
		t.Errorf("JSON is %s (%v), want %s", line, err, want)
	}
}

func split(in io.Reader, delim string, max int) ([]string, error) {
	s := newSplitter(in, delim, max, false)
	var got []string
	for s.next() {
		got = append(got, string(s.text))
	}
	return got, s.err
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		in, delim string
		want      []string
	}{
		{"a\nb\n", "\n", []string{"a", "b"}},
		{"a\n\nb", "\n", []string{"a", "", "b"}},
		{"", "\n", nil},
		{"a<>b>c<>", "<>", []string{"a", "b>c"}},
		{long + "\n" + long, "\n", []string{long, long}},
	} {
		got, err := split(iotest.HalfReader(strings.NewReader(c.in)), c.delim, 1<<20)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%.20q by %q gives %.40q, %v", c.in, c.delim, got, err)
		}
	}
	if got, err := split(strings.NewReader("abc\nabcd\n"), "\n", 3); !errors.Is(err, errTooLong) || len(got) != 1 {
		t.Errorf("a long record: %q, %v", got, err)
	}
	if _, err := split(strings.NewReader(long), "\n", 3); !errors.Is(err, errTooLong) {
		t.Errorf("a long record without an end: %v", err)
	}
	broken := errors.New("broken")
	if _, err := split(iotest.ErrReader(broken), "\n", 3); !errors.Is(err, broken) {
		t.Errorf("a failed read gives %v", err)
	}
}

func TestAsk(t *testing.T) {
	for in, agreed := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yep\n": false} {
		var out bytes.Buffer
		err := ask(strings.NewReader(in), &out, "Delete?")
		if (err == nil) != agreed {
			t.Errorf("answer %q: %v", in, err)
		}
		if out.String() != "Delete? [y/N] " {
			t.Errorf("the question is %q", out.String())
		}
	}
}

func TestIsTerminalTellsFilesAndTheNullDevice(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.CreateTemp(t.TempDir(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, v := range []any{null, file, &bytes.Buffer{}} {
		if isTerminal(v) {
			t.Errorf("%T counts as a terminal", v)
		}
	}
}

func TestReportAndExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{errors.New("plain"), 1, "millrace: plain\n"},
		{fmt.Errorf("wrapped: %w", usagef("bad").hint("Do this.\nAnd that.")), 2, "millrace: wrapped: bad\n  Do this.\n  And that.\n"},
		{explainCode("topic \"x\"", kerr.TopicAuthorizationFailed, ""), 5, "TOPIC_AUTHORIZATION_FAILED"},
		{explainCode("", kerr.InvalidRequest, "because."), 1, "millrace: because (INVALID_REQUEST)\n"},
	} {
		var out bytes.Buffer
		if code := Report(&out, c.err); code != c.code || !strings.Contains(out.String(), c.text) {
			t.Errorf("%v: exit code %d, %q; want %d, %q", c.err, code, out.String(), c.code, c.text)
		}
	}
}

func TestBrokerAddress(t *testing.T) {
	for in, want := range map[string]string{
		"localhost": "localhost:9092", "h:1": "h:1", "::1": "[::1]:9092", "[::1]": "[::1]:9092", "[::1]:7": "[::1]:7", "10.0.0.1": "10.0.0.1:9092",
	} {
		if got, err := brokerAddress(in); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "a:b", "a:0", "a:70000", "a:1:2", "http://a"} {
		if got, err := brokerAddress(in); err == nil {
			t.Errorf("%q is accepted as %q", in, got)
		}
	}
}

func TestSoftwareVersionIsAcceptedByBrokers(t *testing.T) {
	for in, want := range map[string]string{"v1.2.3": "v1.2.3", "1.0+dirty": "1.0-dirty", "": "unknown", "-(devel)-": "devel"} {
		if got := softwareVersion(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// brokenPipe is a stdout whose reader went away.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
}

func TestConsumeEndsQuietlyWhenNobodyReads(t *testing.T) {
	fakeCluster(t)
	if _, errs, code := millrace("a\nb\n", "produce", "orders"); code != 0 {
		t.Fatal(errs)
	}
	var errs bytes.Buffer
	root := &cobra.Command{Use: "millrace"}
	root.AddCommand(Commands("v")...)
	root.SetArgs([]string{"consume", "orders"})
	root.SetOut(brokenPipe{})
	root.SetErr(&errs)
	if code := Report(&errs, root.Execute()); code != 0 || errs.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, errs.String())
	}
}

func TestMemberThatFellOutOfItsGroupIsNotDone(t *testing.T) {
	c := &consuming{group: "g", until: &position{kind: atEnd}}
	c.mu.left = map[topicPartition]int64{{"orders", 0}: 5}
	c.mu.joined = true
	c.lost()
	if c.done() {
		t.Error("done without its partitions")
	}
}
