package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// session is one run of one command: its streams and its connection.
type session struct {
	opts    *options
	version string
	in      io.Reader
	out     io.Writer
	err     io.Writer

	addrs  []string
	dialer *dialer
	login  bool
	kopts  []kgo.Opt
	cl     *kgo.Client
	adm    *kadm.Client
	note   *progress
}

func newSession(a *app, cmd *cobra.Command) (*session, error) {
	addrs, err := a.opts.validate()
	if err != nil {
		return nil, err
	}
	tlsConf, err := a.opts.tlsConfig()
	if err != nil {
		return nil, err
	}
	login, err := a.opts.login()
	if err != nil {
		return nil, err
	}
	s := &session{
		opts: &a.opts, version: a.version,
		in: cmd.InOrStdin(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(),
		addrs:  addrs,
		dialer: &dialer{timeout: a.opts.dialTimeout, tls: tlsConf},
	}
	s.kopts = []kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.ClientID("millrace-cli"),
		kgo.SoftwareNameAndVersion("millrace-cli", softwareVersion(a.version)),
		kgo.Dialer(s.dialer.dial),
		kgo.RetryTimeout(a.opts.timeout),
		kgo.RequestRetries(100),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(time.Duration(n)*50*time.Millisecond, 500*time.Millisecond) }),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.DisableClientMetrics(),
	}
	if s.login = login != nil; s.login {
		s.kopts = append(s.kopts, kgo.SASL(login))
	}
	s.note = startProgress(s)
	return s, nil
}

// softwareVersion keeps what KIP-511 allows in a version.
func softwareVersion(v string) string {
	b := []byte(v)
	for i, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '-' {
			b[i] = '-'
		}
	}
	for len(b) > 0 && (b[0] == '-' || b[0] == '.') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == '-' || b[len(b)-1] == '.') {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return "unknown"
	}
	return string(b)
}

// connect finds a broker that answers, so that a wrong address or a TLS mismatch
// is told at once and by name instead of retried.
func (s *session) connect(ctx context.Context, extra []kgo.Opt) error {
	s.note.say(func() string { return "connecting to " + joinSome(s.addrs, 3) })
	deadline := time.Now().Add(s.opts.wait)
	for {
		err := s.dialer.any(ctx, s.addrs)
		if err == nil {
			break
		}
		if next := time.Now().Add(200 * time.Millisecond); next.After(deadline) || !sleepUntil(ctx, next) {
			return s.unreachable(ctx, err)
		}
	}
	cl, err := kgo.NewClient(append(s.kopts, extra...)...)
	if err != nil {
		return usagef("%v", err)
	}
	s.cl, s.adm = cl, kadm.NewClient(cl)
	s.adm.SetTimeoutMillis(int32(s.opts.timeout.Milliseconds()))
	pinged, cancel := context.WithTimeout(ctx, s.opts.timeout)
	defer cancel()
	if err := cl.Ping(pinged); err != nil {
		return s.unanswered(ctx, err)
	}
	s.note.say(func() string { return "waiting for an answer" })
	return nil
}

func (s *session) close() {
	s.note.stop()
	if s.cl != nil {
		s.cl.Close()
	}
}

// dialer opens connections and remembers the last failure, which franz-go's
// retries would otherwise hide.
type dialer struct {
	timeout time.Duration
	tls     *tls.Config // nil: plaintext

	mu struct {
		sync.Mutex
		addr  string // of the last failure since the last success
		err   error
		since time.Time // of the first failure since the last success
	}
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.open(ctx, network, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.mu.addr, d.mu.err = "", nil
	} else if !errors.Is(err, context.Canceled) {
		if d.mu.err == nil {
			d.mu.since = time.Now()
		}
		d.mu.addr, d.mu.err = addr, err
	}
	return conn, err
}

// failingFor is the last failure, if no dial has succeeded for so long.
func (d *dialer) failingFor(t time.Duration) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.err == nil || time.Since(d.mu.since) < t {
		return "", nil
	}
	return d.mu.addr, d.mu.err
}

func (d *dialer) open(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil || d.tls == nil {
		return conn, err
	}
	conf := d.tls
	if conf.ServerName == "" {
		conf = conf.Clone()
		if conf.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// handshakeError is a failure after the TCP connection was open.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// lastFailure is the address and error of the last dial, if it failed.
func (d *dialer) lastFailure() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.addr, d.mu.err
}

// dialErrors are the failures of all addresses, in their order.
type dialErrors struct {
	addrs []string
	errs  []error
}

func (e *dialErrors) Error() string   { return e.errs[0].Error() }
func (e *dialErrors) Unwrap() []error { return e.errs }

// any succeeds as soon as one address accepts a connection.
func (d *dialer) any(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		i   int
		err error
	}
	results := make(chan result, len(addrs))
	for i, a := range addrs {
		go func() {
			conn, err := d.open(ctx, "tcp", a)
			if err == nil {
				err = conn.Close()
			}
			results <- result{i, err}
		}()
	}
	failed := &dialErrors{addrs: addrs, errs: make([]error, len(addrs))}
	for range addrs {
		r := <-results
		if r.err == nil {
			return nil
		}
		failed.errs[r.i] = r.err
	}
	return failed
}
