package peers

import (
	"bufio"
	"context"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestChoiceMakesTheBrokerThatTheFlagsName(t *testing.T) {
	var c Choice
	f := flag.NewFlagSet("test", flag.ContinueOnError)
	c.Flags(f, "test")
	if c.Peer != "millrace" || !c.Ours() {
		t.Errorf("without flags: %+v", c)
	}
	if err := f.Parse([]string{"--peer", "millrace", "--bin", "/some/where"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Build(); err != nil || c.Bin != "/some/where" {
		t.Errorf("a binary that is named is built: %v, %+v", err, c)
	}
	b, err := c.New(MillraceOptions{Dir: t.TempDir(), Config: []string{"a=1", "b=2"}}, KafkaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := b.(*process).command()
	if line := strings.Join(cmd.Args, " "); cmd.Path != "/some/where" || !strings.HasSuffix(line, "--set a=1 --set b=2") {
		t.Errorf("it runs %s", line)
	}
	if again := b.(*process).command(); !slices.Equal(again.Args, cmd.Args) {
		t.Errorf("the second start runs %v", again.Args)
	}
	c.Peer = "rabbit"
	if _, err := c.New(MillraceOptions{}, KafkaOptions{}); err == nil || !strings.Contains(err.Error(), "want millrace or kafka") {
		t.Errorf("a broker that there is not: %v", err)
	}
}

func TestStartTellsOfABinaryThatEnds(t *testing.T) {
	c := Choice{Peer: "millrace", Bin: "/bin/false"}
	if _, err := c.Start(t.Context(), time.Minute, MillraceOptions{Dir: t.TempDir()}, KafkaOptions{}); err == nil || !strings.Contains(err.Error(), "ended while starting") {
		t.Errorf("a binary that ends at once: %v", err)
	}
}

// TestMainEndsWithTheOutcome runs this test binary again as such a program.
func TestMainEndsWithTheOutcome(t *testing.T) {
	const key = "PEERS_TEST_OUTCOME"
	outcomes := map[string]func(context.Context) (bool, error){
		"0": func(context.Context) (bool, error) { return true, nil },
		"1": func(context.Context) (bool, error) { return false, nil },
		"2": func(context.Context) (bool, error) { return true, os.ErrInvalid },
	}
	if run := outcomes[os.Getenv(key)]; run != nil {
		Main("test", run)
		os.Exit(0)
	}
	for want := range outcomes {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestMainEndsWithTheOutcome$")
		cmd.Env = append(os.Environ(), key+"="+want)
		out, _ := cmd.CombinedOutput()
		if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != want || (want == "2") != strings.HasPrefix(string(out), "test: invalid argument") {
			t.Errorf("exit %s, want %s: %s", got, want, out)
		}
	}
}

func TestKillGroupReachesChildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100 & echo $!; read line; echo $line; wait")
	in, out, err := StartTalking(cmd)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	child, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("hello\n")); err != nil || !lines.Scan() || lines.Text() != "hello" {
		t.Fatalf("it answers %q, %v", lines.Text(), err)
	}
	KillGroup(cmd)
	for lines.Scan() { // until the child has let go of the output too
	}
	_ = cmd.Wait() // killed
	for end := time.Now().Add(10 * time.Second); syscall.Kill(child, 0) == nil && !zombie(child); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its child lives on")
		}
	}
	KillGroup(cmd) // nobody is left
}

// zombie says that a process has ended and nobody has waited for it.
func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(b), ") Z ")
}
