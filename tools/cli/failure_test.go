package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func fakeCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "orders")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Setenv(envBrokers, strings.Join(c.ListenAddrs(), ","))
	return c
}

// expect checks the exit code and that stderr has each text.
func expect(t *testing.T, stderr string, code, want int, texts ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	for _, s := range texts {
		if !strings.Contains(stderr, s) {
			t.Errorf("stderr has no %q:\n%s", s, stderr)
		}
	}
}

// selfSigned writes a certificate for name and returns it with its file.
func selfSigned(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if ip := net.ParseIP(name); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestTLS(t *testing.T) {
	cert, ca := selfSigned(t, "127.0.0.1")
	fakeCluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))

	out, errs, code := millrace("", "topic", "list", "--ca-file", ca)
	expect(t, errs, code, ExitOK)
	if !strings.Contains(out, "orders") {
		t.Errorf("no topic is listed over TLS: %q", out)
	}
	_, errs, code = millrace("", "topic", "list", "--tls-skip-verify")
	expect(t, errs, code, ExitOK)
	_, errs, code = millrace("", "topic", "list", "--tls")
	expect(t, errs, code, ExitUnreachable, "signed by an unknown authority", "--ca-file")
	_, errs, code = millrace("", "topic", "list", "--ca-file", ca, "--tls-server-name", "other")
	expect(t, errs, code, ExitUnreachable, "is for another name", "--tls-server-name")
	_, errs, code = millrace("", "topic", "list")
	expect(t, errs, code, ExitUnreachable, "--tls")
}

func TestTLSOnPlaintextPortThatCloses(t *testing.T) {
	addr := server(t, func(c net.Conn) {})
	_, errs, code := millrace("", "topic", "list", "--tls", "--brokers", addr)
	expect(t, errs, code, ExitUnreachable, "during the TLS handshake", "leave out --tls")
}

func TestTLSOnPortOfAnotherProtocol(t *testing.T) {
	addr := server(t, func(c net.Conn) { io.WriteString(c, "220 mail.example ESMTP\r\n") })
	_, errs, code := millrace("", "topic", "list", "--tls", "--brokers", addr)
	expect(t, errs, code, ExitUnreachable, "does not speak TLS", "Leave out --tls")
}

// server answers each connection by fn and closes it.
func server(t *testing.T, fn func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fn(c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	addr := server(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	start := time.Now()
	_, errs, code := millrace("", "topic", "list", "--brokers", addr, "--timeout", "300ms")
	expect(t, errs, code, ExitUnreachable, "no answer within 300ms", "--timeout")
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v to give up", d)
	}
}

func TestServerThatIsNoBroker(t *testing.T) {
	addr := server(t, func(c net.Conn) {
		c.Read(make([]byte, 1))
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	_, errs, code := millrace("", "topic", "list", "--brokers", addr)
	expect(t, errs, code, ExitUnreachable, "does not answer as a Kafka broker does", "Check host and port")
}

func TestOneOfTwoBrokersIsEnough(t *testing.T) {
	c := fakeCluster(t)
	out, errs, code := millrace("", "topic", "list", "--brokers", "127.0.0.1:1,"+c.ListenAddrs()[0])
	expect(t, errs, code, ExitOK)
	if !strings.Contains(out, "orders") {
		t.Errorf("no topic is listed: %q", out)
	}
}

// TestAdvertisedAddressThatCannotBeReached has the broker name another address
// than the one that works, the commonest mistake in setting up a broker.
func TestAdvertisedAddressThatCannotBeReached(t *testing.T) {
	c := fakeCluster(t)
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = 7, "127.0.0.1", 1
		resp.Brokers = append(resp.Brokers, b)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = kmsg.StringPtr("orders")
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Leader, p.Replicas, p.ISR = 7, []int32{7}, []int32{7}
		topic.Partitions = append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	_, errs, code := millrace("", "consume", "orders", "--until-end", "--timeout", "1s")
	expect(t, errs, code, ExitUnreachable, "broker 127.0.0.1:1 cannot be reached: connection refused", "advertise an address")
}

// refuse has the cluster answer one kind of request by an error code.
func refuse(c *kfake.Cluster, key kmsg.Key, set func(kmsg.Request, kmsg.Response)) {
	c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind()
		set(req, resp)
		return resp, nil, true
	})
}

// refuseRecords answers every produce request with an error.
func refuseRecords(c *kfake.Cluster, why *kerr.Error) {
	refuse(c, kmsg.Produce, func(req kmsg.Request, r kmsg.Response) {
		resp := r.(*kmsg.ProduceResponse)
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, why.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
}

func TestProduceNamesTheRefusal(t *testing.T) {
	refuseRecords(fakeCluster(t), kerr.PolicyViolation)
	_, errs, code := millrace("a\nb\n", "produce", "orders", "--partition", "0")
	expect(t, errs, code, ExitFailed, "record not written to topic \"orders\"", "POLICY_VIOLATION")
}

func TestProduceDoesNotCallAFullDiskSilence(t *testing.T) {
	refuseRecords(fakeCluster(t), kerr.KafkaStorageError)
	_, errs, code := millrace("a\n", "produce", "orders", "--timeout", "1s")
	expect(t, errs, code, ExitUnreachable, "1 of 1 records are not acknowledged", "full disk", "log", "--timeout")
}

func TestProduceKeepsItsBatchesWithinTheTopicsLimit(t *testing.T) {
	c := fakeCluster(t)
	if _, errs, code := millrace("", "config", "set", "topic", "orders", "max.message.bytes=2000"); code != ExitOK {
		t.Fatal(errs)
	}
	var asked, batches, largest atomic.Int64
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked.Add(1)
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				batches.Add(1)
				largest.Store(max(largest.Load(), int64(len(p.Records))))
			}
		}
		return nil, nil, false
	})
	in := strings.Repeat(strings.Repeat("x", 99)+"\n", 200)
	out, errs, code := millrace(in, "produce", "orders", "--partition", "0")
	expect(t, errs, code, ExitOK)
	if !strings.Contains(out, "200 records") {
		t.Errorf("%q", out)
	}
	if asked.Load() != 1 || batches.Load() < 10 || largest.Load() > 2000 {
		t.Errorf("the limit was asked for %d times; %d batches of at most %d bytes, the topic takes 2000", asked.Load(), batches.Load(), largest.Load())
	}
	// A record that no batch can hold is refused here, with the way out.
	_, errs, code = millrace(strings.Repeat("x", 2001), "produce", "orders")
	expect(t, errs, code, ExitFailed, "MESSAGE_TOO_LARGE", "max.message.bytes=BYTES")
}

func TestBatchLimit(t *testing.T) {
	for _, c := range []struct {
		recordMax   int
		topic, want int64
	}{
		{1 << 20, -1, 1048588}, // not told
		{1 << 20, 1048588, 1048588},
		{1 << 20, 2000, 2000},
		{1 << 20, 1, 512},
		{1 << 20, 1 << 30, 1<<20 + 64<<10},
		{3, 1 << 30, 1<<20 + 64<<10},
		{10 << 20, -1, 10<<20 + 64<<10},
		{10 << 20, 5 << 20, 5 << 20},
		{1 << 30, 1<<31 - 1, 1 << 30},
		{1 << 30, -1, 1 << 30},
	} {
		if got := batchMax(c.recordMax, c.topic); int64(got) != c.want {
			t.Errorf("records up to %d in a topic that takes %d: %d, want %d", c.recordMax, c.topic, got, c.want)
		}
	}
}

func TestProduceGivesUpWithoutAcknowledgement(t *testing.T) {
	c := fakeCluster(t)
	refuse(c, kmsg.Produce, func(req kmsg.Request, r kmsg.Response) {
		resp := r.(*kmsg.ProduceResponse)
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.NotEnoughReplicas.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	})
	_, errs, code := millrace("a\n", "produce", "orders", "--timeout", "1s")
	if code == ExitOK {
		t.Errorf("the record was never acknowledged, but the exit code is 0")
	}
	expect(t, errs, code, code, "1 of 1 records are not acknowledged", "may have been written")
}

func TestRunningMemberProtectsItsGroup(t *testing.T) {
	c := fakeCluster(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int)
	go func() {
		_, _, code := millraceContext(ctx, "", "consume", "orders", "--group", "live")
		ended <- code
	}()
	wait, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := c.WaitGroupStable(wait, "live", 1); err != nil {
		t.Fatal(err)
	}
	out, errs, code := millrace("", "group", "describe", "live")
	expect(t, errs, code, ExitOK)
	for _, s := range []string{"State:        Stable", "orders:0,1", "millrace-cli"} {
		if !strings.Contains(out, s) {
			t.Errorf("the description has no %q:\n%s", s, out)
		}
	}
	_, errs, code = millrace("", "group", "reset-offsets", "live", "--topic", "orders", "--to-latest", "--execute")
	expect(t, errs, code, ExitFailed, "1 running member", "Stop them first")
	_, errs, code = millrace("", "group", "delete", "live")
	expect(t, errs, code, ExitFailed, "NON_EMPTY_GROUP", "Stop its members first")

	stop()
	if code := <-ended; code != ExitOK {
		t.Errorf("an interrupt of consume without an end of its own: exit code %d, want 0", code)
	}
	if _, err := c.WaitGroupInfo(wait, "live", func(g *kfake.GroupInfo) bool { return g != nil && len(g.Members) == 0 }); err != nil {
		t.Errorf("the member did not leave its group: %v", err)
	}
}

func TestInterruptedCount(t *testing.T) {
	fakeCluster(t)
	ctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, stop)
	_, errs, code := millraceContext(ctx, "", "consume", "orders", "--count", "1")
	expect(t, errs, code, ExitInterrupted, "interrupted")
}

func TestProgressTellsWhatTakesLong(t *testing.T) {
	fakeCluster(t)
	ctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(progressAfter+1500*time.Millisecond, stop)
	_, errs, code := millraceContext(ctx, "", "consume", "orders", "--progress")
	expect(t, errs, code, ExitOK, "0 records (")
	_, errs, _ = millrace("", "topic", "list", "--progress")
	if errs != "" {
		t.Errorf("a quick command shows progress: %q", errs)
	}
}

func TestWaitForABroker(t *testing.T) {
	c := fakeCluster(t)
	addr := c.ListenAddrs()[0]
	c.Close()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	late := make(chan *kfake.Cluster, 1)
	time.AfterFunc(600*time.Millisecond, func() {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(n))
		if err != nil {
			t.Error(err)
		}
		late <- c
	})
	_, errs, code := millrace("", "topic", "list", "--wait", "30s")
	expect(t, errs, code, ExitOK)
	if c := <-late; c != nil {
		c.Close()
	}
	_, errs, code = millrace("", "topic", "list", "--wait", "300ms")
	expect(t, errs, code, ExitUnreachable, "connection refused")
}

func TestBrokerThatGoesAwayIsNamed(t *testing.T) {
	c := fakeCluster(t)
	addr := c.ListenAddrs()[0]
	fetched := make(chan struct{})
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(fetched)
		return nil, nil, false
	})
	go func() {
		<-fetched
		c.Close()
	}()
	_, errs, code := millrace("", "consume", "orders", "--timeout", "1s")
	expect(t, errs, code, ExitUnreachable, fmt.Sprintf("broker %s cannot be reached", addr), "It answered before")
}

func TestFlagsMayStandBeforeTheCommand(t *testing.T) {
	c := fakeCluster(t)
	t.Setenv(envBrokers, "127.0.0.1:1")
	want, _, _ := millrace("", "topic", "list", "--json", "--brokers", c.ListenAddrs()[0])
	for _, before := range [][]string{{"--json", "--timeout", "5s", "-b"}, {"--timeout=5s", "--json", "--brokers"}} {
		out, errs, code := millrace("", append(before, c.ListenAddrs()[0], "topic", "list")...)
		expect(t, errs, code, ExitOK)
		if out != want {
			t.Errorf("%v: %s", before, out)
		}
	}
	_, errs, code := millrace("", "--jsn", "topic", "list")
	expect(t, errs, code, ExitUsage)
	_, errs, code = millrace("", "--jsn")
	expect(t, errs, code, ExitUsage, "--jsn", "millrace --help")
}

func TestRefusedSettingIsExplained(t *testing.T) {
	c := fakeCluster(t)
	refuse(c, kmsg.IncrementalAlterConfigs, func(_ kmsg.Request, r kmsg.Response) {
		res := kmsg.NewIncrementalAlterConfigsResponseResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, "orders"
		res.ErrorCode, res.ErrorMessage = kerr.InvalidConfig.Code, kmsg.StringPtr("retention.ms: \"abc\" is no number")
		r.(*kmsg.IncrementalAlterConfigsResponse).Resources = []kmsg.IncrementalAlterConfigsResponseResource{res}
	})
	_, errs, code := millrace("", "config", "set", "topic", "orders", "retention.ms=abc")
	expect(t, errs, code, ExitUsage, `topic "orders": retention.ms: "abc" is no number (INVALID_CONFIG)`,
		`"millrace config get topic orders --all" shows`)
}
