package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// Bounds of one HTTP request.
const (
	readHeaderMax   = 5 * time.Second
	idleMax         = time.Minute
	headerBytesMax  = 16 << 10
	connectionsMax  = 64
	profileWriteMax = 10 * time.Minute
)

// Options make a Server. All func fields are called from several goroutines.
type Options struct {
	// Listen is HOST:PORT; port 0 takes a free one.
	Listen string
	// Collect fills in the values of the table of metrics.
	Collect func(*Emitter)
	// NotReady lists why clients cannot be served now, one line each; none when
	// they can.
	NotReady func() []string
	Logf     func(format string, args ...any)
}

// Server serves the operators' HTTP requests.
type Server struct {
	opts Options
	ln   net.Listener
	http *http.Server
	done chan struct{}
}

// Start binds and serves until Close. The error says which address was refused.
func Start(o Options) (*Server, error) {
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, ln: limitListener(ln, connectionsMax), done: make(chan struct{})}
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: readHeaderMax,
		WriteTimeout:      profileWriteMax,
		IdleTimeout:       idleMax,
		MaxHeaderBytes:    headerBytesMax,
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(s.ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.Logf("the admin address stopped serving: %v", err)
		}
	}()
	return s, nil
}

// Addr is where it listens, with the port that was taken.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close stops at once; requests under way are cut off when ctx ends.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveIndex)
	mux.HandleFunc("GET /metrics", s.serveMetrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "/metrics       Prometheus format\n/healthz       the process is alive\n/readyz        clients can be served; if not, why\n/debug/pprof/  profiles\n")
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var e Emitter
	s.opts.Collect(&e)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	e.writeTo(w)
}

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	if why := s.opts.NotReady(); len(why) > 0 {
		writeText(w, http.StatusServiceUnavailable, "not ready\n"+strings.Join(why, "\n")+"\n")
		return
	}
	writeText(w, http.StatusOK, "ready\n")
}

func writeText(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// limitListener keeps at most n connections open; more wait in the backlog.
func limitListener(ln net.Listener, n int) net.Listener {
	return &limited{Listener: ln, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, slots: l.slots, open: make(chan struct{}, 1)}, nil
}

func (l *limited) Close() error {
	select {
	case <-l.closed:
		return nil
	default:
		close(l.closed)
	}
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	slots chan struct{}
	open  chan struct{} // full once closed
}

func (c *limitedConn) Close() error {
	select {
	case c.open <- struct{}{}:
		<-c.slots
	default:
	}
	return c.Conn.Close()
}
