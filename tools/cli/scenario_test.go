package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kfake"
)

// millrace runs one command line in this process.
func millrace(stdin string, args ...string) (stdout, stderr string, code int) {
	return millraceContext(context.Background(), stdin, args...)
}

// millraceContext is millrace with an interrupt: the end of ctx.
func millraceContext(ctx context.Context, stdin string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	root := &cobra.Command{Use: "millrace", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands("v0-test")...)
	PrepareRoot(root)
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	code = Report(&errs, root.ExecuteContext(ctx))
	return out.String(), errs.String(), code
}

// What differs from run to run.
var (
	idPattern       = regexp.MustCompile(`"id": "[A-Za-z0-9_-]{22}"`)
	idLinePattern   = regexp.MustCompile(`(?m)^ID:( +)[A-Za-z0-9_-]{22}$`)
	secondsPattern  = regexp.MustCompile(`"seconds": [0-9.e-]+`)
	timePattern     = regexp.MustCompile(`"timestamp":"[^"]+","timestamp_ms":[0-9]+`)
	platformPattern = regexp.MustCompile(`go1[0-9.a-z-]+(, |","os":")[a-z0-9]+(/|","arch":")[a-z0-9]+`)
)

func steady(s string, addrs []string) string {
	for i, a := range addrs {
		s = strings.ReplaceAll(s, a, fmt.Sprintf("BROKER%d", i))
		_, port, _ := strings.Cut(a, ":")
		s = strings.ReplaceAll(s, `"port": `+port, fmt.Sprintf(`"port": PORT%d`, i))
	}
	s = idPattern.ReplaceAllString(s, `"id": "ID"`)
	s = idLinePattern.ReplaceAllString(s, "ID:${1}ID")
	s = secondsPattern.ReplaceAllString(s, `"seconds": S`)
	s = timePattern.ReplaceAllString(s, `"timestamp":"TIME","timestamp_ms":MS`)
	return platformPattern.ReplaceAllString(s, "GO${1}OS${2}ARCH")
}

// splitArgs splits a command line at spaces; single quotes keep them.
func splitArgs(t *testing.T, line string) []string {
	var args []string
	var cur strings.Builder
	quoted, any := false, false
	for _, c := range line {
		switch {
		case c == '\'':
			quoted, any = !quoted, true
		case c == ' ' && !quoted:
			if any {
				args = append(args, cur.String())
			}
			cur.Reset()
			any = false
		default:
			cur.WriteRune(c)
			any = true
		}
	}
	if quoted {
		t.Fatalf("unbalanced quote in %q", line)
	}
	if any {
		args = append(args, cur.String())
	}
	return args
}

// TestScenarios runs the command lines of testdata/*.txt, each file against a
// fresh in-process cluster. The first line of a block's input is the command
// line, the rest is its stdin.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		var addrs []string
		// The environment of whoever runs the tests must not show.
		for _, v := range []string{envUser, envPassword} {
			t.Setenv(v, "")
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				n := 1
				d.MaybeScanArgs(t, "brokers", &n)
				opts := []kfake.Opt{kfake.NumBrokers(n), kfake.ClusterID("fake-cluster"), kfake.DefaultNumPartitions(2)}
				if d.HasArg("acls") {
					opts = append(opts, kfake.EnableSASL(), kfake.EnableACLs(),
						kfake.Superuser("PLAIN", "admin", "secret"), kfake.User("SCRAM-SHA-256", "guest", "secret"))
				}
				c, err := kfake.NewCluster(opts...)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				addrs = c.ListenAddrs()
				os.Setenv(envBrokers, strings.Join(addrs, ","))
				t.Cleanup(func() { os.Unsetenv(envBrokers) })
				return ""
			case "run":
				line, stdin, _ := strings.Cut(d.Input, "\n")
				if stdin != "" {
					stdin += "\n"
				}
				out, errs, code := millrace(stdin, splitArgs(t, line)...)
				text := out
				if errs != "" {
					text += "stderr:\n" + errs
				}
				if code != 0 {
					text += fmt.Sprintf("exit %d\n", code)
				}
				return steady(text, addrs)
			}
			t.Fatalf("unknown directive %q", d.Cmd)
			return ""
		})
	})
}
