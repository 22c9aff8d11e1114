package listener

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem = a.make(pkix.Name{CommonName: "test authority"}, true)
	return a
}

func (a *authority) make(name pkix.Name, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: name,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := tmpl, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issue writes a certificate and its key over files.
func (a *authority) issue(name string, files *TLSFiles) {
	a.t.Helper()
	_, key, certPEM := a.make(pkix.Name{CommonName: name}, false)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(files.Certificate, certPEM)
	a.write(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (a *authority) write(name string, b []byte) {
	a.t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// startTLS runs a server with a TLS listener whose certificate is named "first".
func startTLS(t *testing.T, edit func(*Options)) (*testServer, *authority, *TLSFiles) {
	t.Helper()
	a := newAuthority(t)
	dir := t.TempDir()
	files := &TLSFiles{
		Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		CheckEvery: 10 * time.Millisecond,
	}
	a.issue("first", files)
	ts := start(t, func(o *Options) {
		o.Listens = []Listen{{Name: "SSL", Protocol: SSL, Host: "127.0.0.1", TLS: files}}
		if edit != nil {
			edit(o)
		}
	})
	return ts, a, files
}

func (ts *testServer) dialTLS(conf *tls.Config) (*client, *tls.Conn) {
	ts.t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", ts.addr, conf)
	if err != nil {
		ts.t.Fatal(err)
	}
	return newClient(ts.t, c), c
}

func TestTLSServesTheSameFramesInOrder(t *testing.T) {
	ts, a, _ := startTLS(t, func(o *Options) { o.Shards = 2 })
	c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
	const n = 200
	go func() {
		for i := range n {
			b := request(opEcho, uint32(i), bytes.Repeat([]byte{byte(i)}, i*300))
			if i%3 == 1 {
				b = request(opShard, uint32(i), bytes.Repeat([]byte{byte(i)}, i*300))
			}
			if _, err := c.conn.Write(b); err != nil {
				return
			}
		}
	}()
	for i := range n {
		c.want(uint32(i), bytes.Repeat([]byte{byte(i)}, i*300))
	}
}

func TestTLSRequestsOfASlowReaderAreNotReadAnyMore(t *testing.T) {
	ts, a, _ := startTLS(t, func(o *Options) { o.ConnOutBytesMax = 1 << 20 })
	c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
	const n, size = 60, 1 << 20
	for i := range n {
		c.send(request(opBig, uint32(i), u32(size)))
	}
	eventually(t, "a pause", func() bool { return ts.loops[0].stats.paused[pauseSlow].Load() > 0 })
	time.Sleep(50 * time.Millisecond) // it must not go on
	if served, _ := ts.handlers[0].counts(); served >= n/2 {
		t.Fatalf("%d of %d requests were served to a client that reads nothing", served, n)
	}
	for i := range n {
		c.want(uint32(i), bytes.Repeat([]byte{byte(i)}, size))
	}
}

func TestTLSConnectionOfAClientThatReadsNothingEndsSoon(t *testing.T) {
	ts, a, _ := startTLS(t, nil)
	c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
	for i := range 40 {
		c.send(request(opBig, uint32(i), u32(1<<20)))
	}
	l := ts.loops[0]
	eventually(t, "a pause", func() bool { return l.stats.paused[pauseSlow].Load() > 0 })
	time.Sleep(100 * time.Millisecond) // the socket fills up
	start := time.Now()
	l.Post(func() {
		for s := range l.sessions {
			s.Close("")
		}
	})
	eventually(t, "the end", func() bool { return l.stats.connections.Load() == 0 })
	if d := time.Since(start); d > 4*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestTLSClientsThatReadNothingDoNotHoldUpAStop(t *testing.T) {
	ts, a, _ := startTLS(t, func(o *Options) { o.ConnOutBytesMax = 1 << 20 })
	const clients = 20
	for range clients {
		c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
		for i := range 40 {
			c.send(request(opBig, uint32(i), u32(1<<20)))
		}
	}
	l := ts.loops[0]
	eventually(t, "pauses", func() bool { return l.stats.paused[pauseSlow].Load() >= clients })
	time.Sleep(200 * time.Millisecond) // the sockets fill up
	const timeout = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	start := time.Now()
	if err := ts.Stop(ctx); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > timeout+3*time.Second {
		t.Errorf("a stop with a timeout of %v took %v", timeout, d)
	}
}

func TestTLSRequestsWithoutATicketAreNotRead(t *testing.T) {
	ts, a, _ := startTLS(t, func(o *Options) { o.NodeBytesMax = 1 << 20 })
	c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
	const n, size = 64, 200 << 10
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if _, err := c.conn.Write(request(opProduce, uint32(i), make([]byte, size))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	h := ts.handlers[0]
	eventually(t, "held requests", func() bool { _, held := h.counts(); return held >= 4 })
	time.Sleep(30 * time.Millisecond) // it must not go on
	if _, held := h.counts(); held > 4 {
		t.Fatalf("%d requests are held, the limit has room for 4", held)
	}
	got := 0
	for got < n {
		_, held := h.counts()
		h.letGo()
		for range held {
			c.want(uint32(got), []byte("0"))
			got++
		}
		time.Sleep(time.Millisecond)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func TestTLSCertificateIsReadAgainWhenItChanges(t *testing.T) {
	ts, a, files := startTLS(t, nil)
	name := func() string {
		c, conn := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
		defer c.conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "first" {
		t.Fatalf("served the certificate of %q", got)
	}
	kept, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
	a.write(files.Certificate, []byte("not a certificate"))
	eventually(t, "the complaint", func() bool {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		return strings.Contains(strings.Join(ts.log, "\n"), "not used")
	})
	if got := name(); got != "first" {
		t.Fatalf("served the certificate of %q after a bad file", got)
	}
	a.issue("second", files)
	eventually(t, "the new certificate", func() bool { return name() == "second" })
	kept.send(request(opEcho, 1, []byte("still here")))
	kept.want(1, []byte("still here"))
}

func TestTLSFilesThatDisappearAreToldOfOnce(t *testing.T) {
	ts, a, files := startTLS(t, nil)
	var watched []string // by the log
	lines := func(text string) (n int) {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		watched = slices.Clone(ts.log)
		for _, l := range watched {
			if strings.Contains(l, text) {
				n++
			}
		}
		return n
	}
	serves := func(want string) {
		t.Helper()
		c, conn := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
		defer c.conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("served the certificate of %q, want %q", got, want)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for round := 1; round <= 2; round++ {
		move(files.Key, files.Key+".away")
		eventually(t, "the complaint", func() bool { return lines("not used") == round })
		time.Sleep(10 * files.CheckEvery) // it must not be repeated
		serves("first")
		move(files.Key+".away", files.Key)
		eventually(t, "the all-clear", func() bool { return lines("back as they were") == round })
		time.Sleep(10 * files.CheckEvery)
		serves("first")
		if lines("not used") != round || lines("back as they were") != round || len(watched) != 2*round {
			t.Fatalf("round %d: %q", round, watched)
		}
	}
	if !strings.Contains(watched[0], files.Key) || !strings.Contains(watched[0], "no such file") {
		t.Errorf("the complaint does not say what is wrong: %q", watched[0])
	}
	// Another one in its place is taken into use, which is told instead.
	move(files.Certificate, files.Certificate+".away")
	eventually(t, "the complaint", func() bool { return lines("not used") == 3 })
	a.issue("second", files)
	eventually(t, "the new certificate", func() bool { return lines("again") == 1 })
	serves("second")
}

func TestTLSClientCertificatesAreChecked(t *testing.T) {
	clients := newAuthority(t)
	dir := t.TempDir()
	roots := filepath.Join(dir, "roots.pem")
	clients.write(roots, clients.pem)
	ts, a, _ := startTLS(t, func(o *Options) {
		o.Listens[0].TLS.ClientCAs, o.Listens[0].TLS.ClientAuth = roots, "required"
	})
	mine := &TLSFiles{Certificate: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem")}
	clients.issue("client", mine)
	pair, err := tls.LoadX509KeyPair(mine.Certificate, mine.Key)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{pair}})
	c.send(request(opEcho, 1, nil))
	c.want(1, nil)
	// In TLS 1.3 the client learns with its first read that it is refused.
	without, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
	without.wantClosed()
	eventually(t, "the refusal is counted", func() bool { return ts.Refused().Handshake == 1 })
}

func TestPlaintextOnATLSListenerIsRefused(t *testing.T) {
	ts, _, _ := startTLS(t, nil)
	c := ts.dial()
	c.send(request(opEcho, 1, nil))
	buf := make([]byte, 1024)
	for {
		// A TLS alert may come before the end.
		if _, err := c.conn.Read(buf); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("the connection is not closed")
			}
			break
		}
	}
	eventually(t, "the refusal is counted", func() bool { return ts.Refused().Handshake == 1 })
	eventually(t, "the log says why", func() bool {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		return strings.Contains(strings.Join(ts.log, "\n"), "plaintext was spoken to a TLS listener")
	})
}
