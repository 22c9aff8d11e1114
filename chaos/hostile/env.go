package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
)

// The settings of the broker under attack, and what they add up to: payload memory
// and requests, each of which has a bound of its own, and the heap for all the
// rest.
const (
	payloadMiB = 64
	requestMiB = 64
	replyMiB   = 32
	groupMiB   = 48
	sessionMiB = 16
	heapMiB    = 384 // above the three before it by what serving takes, and the collector
	budgetMiB  = 512
)

// env is the broker with what watches it.
type env struct {
	o       options
	broker  peers.Broker
	tlsAddr string // empty: the broker has no TLS listener
	memory  *memory
	watcher *watcher
	answers map[string]answer
}

// topics that attacks use; their names stand in answers.
const (
	topicName     = "attacked"
	bystanderName = "bystander"
)

func newEnv(ctx context.Context, o options) (*env, error) {
	if err := os.RemoveAll(o.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	e := &env{o: o}
	var err error
	if e.answers, err = readAnswers(); err != nil {
		return nil, err
	}
	millrace := peers.MillraceOptions{Dir: o.dir}
	if o.broker.Ours() {
		if err := e.prepareMillrace(&millrace); err != nil {
			return nil, err
		}
	}
	if e.broker, err = o.broker.New(millrace, peers.KafkaOptions{Dir: o.dir, HeapMB: 768}); err != nil {
		return nil, err
	}
	sctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := e.broker.Start(sctx); err != nil {
		return nil, err
	}
	if err := e.makeTopics(sctx); err != nil {
		return nil, errors.Join(err, e.broker.Kill())
	}
	e.memory = watchMemory(e.broker)
	if e.watcher, err = startWatcher(o.dir, e.broker.Addr()); err != nil {
		return nil, errors.Join(err, e.broker.Kill())
	}
	return e, nil
}

// prepareMillrace gives the broker little memory, and a listener with TLS.
func (e *env) prepareMillrace(m *peers.MillraceOptions) error {
	cert, key, err := writeCertificate(e.o.dir)
	if err != nil {
		return err
	}
	port, err := peers.FreePort()
	if err != nil {
		return err
	}
	e.tlsAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	m.Listen = []string{"SSL://" + e.tlsAddr}
	m.Config = []string{
		"ssl.certificate.file=" + cert, "ssl.key.file=" + key,
		fmt.Sprintf("memory.payload.bytes=%d", payloadMiB<<20),
		fmt.Sprintf("memory.inflight.bytes=%d", payloadMiB<<18),
		fmt.Sprintf("queued.max.request.bytes=%d", requestMiB<<20),
		fmt.Sprintf("queued.max.reply.bytes=%d", replyMiB<<20),
		fmt.Sprintf("groups.memory.bytes=%d", groupMiB<<20),
		fmt.Sprintf("fetch.sessions.memory.bytes=%d", sessionMiB<<20),
		fmt.Sprintf("memory.heap.bytes=%d", heapMiB<<20),
		"group.initial.rebalance.delay.ms=0",
		fmt.Sprintf("group.min.session.timeout.ms=%d", loadSessionMs),
		"offsets.topic.num.partitions=4",
	}
	return nil
}

// makeTopics makes what the attacks and the bystander use, __consumer_offsets too.
func (e *env) makeTopics(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(e.broker.Addr()))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	r, err := adm.CreateTopics(ctx, 2, 1, nil, topicName, bystanderName)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	for {
		if err := adm.FindGroupCoordinators(ctx, "g").Error(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no group coordinator: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// alive says whether the broker still answers.
func (e *env) alive(ctx context.Context) error {
	select {
	case <-e.broker.Exited():
		return errors.New("the broker has ended")
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := e.dial(ctx)
	if err != nil {
		return fmt.Errorf("the broker does not accept connections any more: %w", err)
	}
	defer c.Close()
	if got := c.ask(apiVersions(3), 20*time.Second); got != answered("NONE") {
		return fmt.Errorf("the broker does not answer any more: %s", got)
	}
	return nil
}

// finish stops the bystander, checks that all it was acknowledged is there, and
// stops the broker.
func (e *env) finish() error {
	err := e.watcher.finish()
	e.memory.stop()
	return errors.Join(err, e.broker.Stop(30*time.Second))
}

// cpu is the CPU time of the broker so far.
func (e *env) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.broker.PID()))
	if err != nil {
		return 0, fmt.Errorf("the broker has ended: %w", err)
	}
	// The name in brackets may hold anything; what follows are numbers.
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields", len(f))
	}
	var ticks int64
	for _, s := range f[11:13] { // user and system time
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHZ, nil
}

// userHZ is the unit of times in /proc, the same on every Linux.
const userHZ = 100

// writeCertificate makes a certificate for 127.0.0.1, valid for a day.
func writeCertificate(dir string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return cert, key, err
}

// memory samples the broker's resident memory.
type memory struct {
	broker peers.Broker
	quit   chan struct{}
	done   chan struct{}

	mu struct {
		sync.Mutex
		now, peak int64
	}
}

const memoryEvery = 20 * time.Millisecond

func watchMemory(b peers.Broker) *memory {
	m := &memory{broker: b, quit: make(chan struct{}), done: make(chan struct{})}
	m.sample()
	go func() {
		defer close(m.done)
		for {
			select {
			case <-m.quit:
				return
			case <-time.After(memoryEvery):
				m.sample()
			}
		}
	}()
	return m
}

func (m *memory) sample() {
	n, err := peers.ResidentBytes(m.broker.PID())
	if err != nil {
		return // it has ended, which alive tells
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.now, m.mu.peak = n, max(m.mu.peak, n)
}

// reset begins a new peak.
func (m *memory) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.peak = m.mu.now
}

func (m *memory) peak() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.peak
}

func (m *memory) stop() {
	close(m.quit)
	<-m.done
}
