package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.Listen, o.Logf = "127.0.0.1:0", t.Logf
	if o.Collect == nil {
		o.Collect = func(*Emitter) {}
	}
	if o.NotReady == nil {
		o.NotReady = func() []string { return nil }
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + s.Addr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestReadinessSaysWhyNot(t *testing.T) {
	var ready atomic.Bool
	s := start(t, Options{NotReady: func() []string {
		if ready.Load() {
			return nil
		}
		return []string{"the controller has no leader", "the disk is nearly full"}
	}})
	if code, body := get(t, s, "/readyz"); code != 503 || body != "not ready\nthe controller has no leader\nthe disk is nearly full\n" {
		t.Errorf("%d %q", code, body)
	}
	if code, body := get(t, s, "/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("%d %q", code, body)
	}
	ready.Store(true)
	if code, body := get(t, s, "/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("%d %q", code, body)
	}
}

func TestMetricsAreGroupedAndEscaped(t *testing.T) {
	s := start(t, Options{Collect: func(e *Emitter) {
		e.Set("millrace_connections", 3, "1")
		e.Set("millrace_topics", 5)
		e.Set("millrace_connections", 2, "0")
		e.Set("millrace_build_info", 1, "a\"b\\c\nd", "go1")
		e.SetHistogram("millrace_request_duration_seconds", []float64{0.001, 0.01}, []uint64{4, 0, 2}, 1.5, "Produce")
	}})
	code, body := get(t, s, "/metrics")
	if code != 200 {
		t.Fatal(code)
	}
	want := `# HELP millrace_build_info 1, labelled with the version.
# TYPE millrace_build_info gauge
millrace_build_info{version="a\"b\\c\nd",go="go1"} 1
# HELP millrace_request_duration_seconds Time from a request's arrival to its reply; long polls count with their wait.
# TYPE millrace_request_duration_seconds histogram
millrace_request_duration_seconds_bucket{api="Produce",le="0.001"} 4
millrace_request_duration_seconds_bucket{api="Produce",le="0.01"} 4
millrace_request_duration_seconds_bucket{api="Produce",le="+Inf"} 6
millrace_request_duration_seconds_sum{api="Produce"} 1.5
millrace_request_duration_seconds_count{api="Produce"} 6
# HELP millrace_connections Open client connections.
# TYPE millrace_connections gauge
millrace_connections{shard="1"} 3
millrace_connections{shard="0"} 2
# HELP millrace_topics Topics of the cluster.
# TYPE millrace_topics gauge
millrace_topics 5
`
	if !strings.HasPrefix(body, want) {
		t.Errorf("got\n%s\nwant it to start with\n%s", body[:min(len(body), 2000)], want)
	}
	for _, name := range []string{"go_goroutines", "go_gc_duration_seconds", "process_resident_memory_bytes"} {
		if !strings.Contains(body, "# TYPE "+name+" ") || !strings.Contains(body, "\n"+name) {
			t.Errorf("no %s, or not its type", name)
		}
	}
}

func TestUnknownMetricIsABug(t *testing.T) {
	for name, f := range map[string]func(*Emitter){
		"name":   func(e *Emitter) { e.Set("millrace_nope", 1) },
		"labels": func(e *Emitter) { e.Set("millrace_topics", 1, "x") },
		"kind":   func(e *Emitter) { e.Set("millrace_request_duration_seconds", 1, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was taken")
				}
			}()
			f(new(Emitter))
		})
	}
}

func TestProfilesAndIndex(t *testing.T) {
	s := start(t, Options{})
	if code, body := get(t, s, "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %.80q", code, body)
	}
	if code, body := get(t, s, "/"); code != 200 || !strings.Contains(body, "/metrics") {
		t.Errorf("%d %q", code, body)
	}
	if code, _ := get(t, s, "/nope"); code != 404 {
		t.Errorf("unknown path: %d", code)
	}
}

func TestPortInUseIsTold(t *testing.T) {
	s := start(t, Options{})
	_, err := Start(Options{Listen: s.Addr(), Logf: t.Logf})
	var op *net.OpError
	if !errors.Is(err, syscall.EADDRINUSE) || !errors.As(err, &op) || op.Addr.String() != s.Addr() {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, Options{})
	var conns []net.Conn
	for range connectionsMax {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	answered := make(chan int, 1)
	go func() {
		code, _ := get(t, s, "/healthz")
		answered <- code
	}()
	select {
	case <-answered:
		t.Error("a connection above the bound was served")
	case <-time.After(50 * time.Millisecond):
	}
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case code := <-answered:
		if code != 200 {
			t.Error(code)
		}
	case <-time.After(10 * time.Second):
		t.Error("no answer after the others had left")
	}
}

func TestMetricsDocsAreInStep(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "METRICS.md")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Markdown() {
		t.Errorf("%s is out of step with the table: run `make docs`", path)
	}
}
