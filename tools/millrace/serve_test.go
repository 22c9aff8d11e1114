package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/net/admin"
	"millrace/raftlog"
)

func client(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.DialTimeout(5 * time.Second), kgo.RetryTimeout(20 * time.Second),
		kgo.RecordDeliveryTimeout(20 * time.Second), kgo.MetadataMinAge(20 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func createTopic(t *testing.T, cl *kgo.Client, name string, partitions int32, configs map[string]*string) {
	t.Helper()
	r, err := kadm.NewClient(cl).CreateTopics(within(t, 30*time.Second), partitions, 1, configs, name)
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// produce sends records numbered [from, to) to one topic and waits for all.
func produce(t *testing.T, cl *kgo.Client, topic string, from, to int) {
	t.Helper()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i%17), Value: fmt.Appendf(nil, "v%d", i)})
	}
	if err := cl.ProduceSync(within(t, 30*time.Second), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume reads until n records have come and returns how often each value did.
func consume(t *testing.T, cl *kgo.Client, n int) map[string]int {
	t.Helper()
	ctx := within(t, 30*time.Second)
	got := make(map[string]int)
	for total := 0; total < n; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d records of %d: %v", total, n, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			got[string(r.Value)]++
			total++
		})
	}
	return got
}

func checkAll(t *testing.T, got map[string]int, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if n := got[fmt.Sprint("v", i)]; n != 1 {
			t.Errorf("record v%d was read %d times", i, n)
		}
	}
	if len(got) != to-from {
		t.Errorf("%d different records, want %d", len(got), to-from)
	}
}

func TestRecordsAndOffsetsSurviveStopAndKill(t *testing.T) {
	dir := t.TempDir()
	group := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
	fast := []string{"--set", "group.initial.rebalance.delay.ms=0"}

	p := startProcess(t, dir, fast...)
	cl := client(t, p.kafka)
	createTopic(t, cl, "t", 3, nil)
	produce(t, cl, "t", 0, 500)
	member := client(t, p.kafka, group...)
	checkAll(t, consume(t, member, 500), 0, 500)
	if err := member.CommitUncommittedOffsets(within(t, 20*time.Second)); err != nil {
		t.Fatal(err)
	}
	member.Close()
	cl.Close()
	p.stop()

	p = startProcess(t, dir, fast...)
	cl = client(t, p.kafka)
	produce(t, cl, "t", 500, 900)
	p.kill()

	p = startProcess(t, dir, fast...)
	cl = client(t, p.kafka)
	produce(t, cl, "t", 900, 1000)
	member = client(t, p.kafka, group...)
	checkAll(t, consume(t, member, 500), 500, 1000)
	all := client(t, p.kafka, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	checkAll(t, consume(t, all, 1000), 0, 1000)
	member.Close()
	all.Close()
	p.stop()
}

func TestTopicChangesSurviveKill(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir)
	cl := client(t, p.kafka)
	adm := kadm.NewClient(cl)
	retention := "123456"
	createTopic(t, cl, "kept", 2, map[string]*string{"retention.ms": &retention})
	createTopic(t, cl, "gone", 1, nil)
	produce(t, cl, "gone", 0, 10)
	ctx := within(t, 60*time.Second)
	if r, err := adm.DeleteTopics(ctx, "gone"); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}
	if r, err := adm.UpdatePartitions(ctx, 5, "kept"); err != nil || r.Error() != nil {
		t.Fatal(err, r.Error())
	}
	if r, err := adm.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.retention.bytes", Value: kadm.StringPtr("777")}}); err != nil {
		t.Fatal(err, r)
	}
	p.kill()

	p = startProcess(t, dir)
	adm = kadm.NewClient(client(t, p.kafka))
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(topics) != 1 || len(topics["kept"].Partitions) != 5 {
		t.Errorf("topics after the restart: %v", topics)
	}
	described, err := adm.DescribeTopicConfigs(ctx, "kept")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, c := range described[0].Configs {
		values[c.Key] = c.MaybeValue()
	}
	if values["retention.ms"] != retention || values["retention.bytes"] != "777" {
		t.Errorf("retention.ms %q, retention.bytes %q", values["retention.ms"], values["retention.bytes"])
	}
	p.stop()
}

func TestStartsThatAreRefusedSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir)
	free := []string{"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	other := func(args ...string) []string {
		return append(append([]string{"--data", t.TempDir()}, free...), args...)
	}
	tls := func(args ...string) []string {
		return append([]string{"--data", t.TempDir(), "--admin", "off", "--set", "listeners=SSL://127.0.0.1:0"}, args...)
	}
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	adminAddr := strings.TrimPrefix(p.admin, "http://")
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"the data directory is in use", nil, append([]string{"--data", dir}, free...), []string{"in use by another process", dir, "stop the other one"}},
		{"the port is in use", nil, []string{"--data", t.TempDir(), "--listen", p.kafka, "--admin", "off"}, []string{p.kafka, "port is in use", "--listen"}},
		{"the admin port is in use", nil, []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", adminAddr}, []string{adminAddr, "port is in use", "--admin"}},
		{"no such address", nil, []string{"--data", t.TempDir(), "--listen", "192.0.2.1:0", "--admin", "off"}, []string{"192.0.2.1:0", "no such address"}},
		{"wrong settings, all at once", []string{"MILLRACE_NODE_ID=-1"}, other("--config", write("num.partitons: 3\nlog:\n  roll.hours: soon\n"), "--set", "shard.pin=perhaps"),
			[]string{"4 settings are wrong", "num.partitions?", "log.roll.hours", "1 to 2147483647", "auto, on, off"}},
		{"no configuration file", nil, other("--config", "/nowhere/m.yaml"), []string{"/nowhere/m.yaml", "cannot be read"}},
		{"an argument", nil, other("mydata"), []string{"takes no arguments", "mydata", "--help"}},
		{"a listener with a name", nil, []string{"--data", t.TempDir(), "--listen", "SSL://127.0.0.1:0"}, []string{"--listen", "HOST:PORT", "--set listeners=SSL://127.0.0.1:0"}},
		{"an unknown flag", nil, []string{"--dta", "x"}, []string{"--dta", "--help"}},
		{"no certificate", nil, tls("--set", "ssl.certificate.file=/nowhere/c.pem", "--set", "ssl.key.file=/nowhere/k.pem"), []string{"/nowhere/c.pem", "ssl.certificate.file"}},
		{"a certificate that is none", nil, tls("--set", "ssl.certificate.file="+write("x"), "--set", "ssl.key.file="+write("y")), []string{"SSL", "ssl.key.file"}},
		{"a data directory that is a file", nil, append([]string{"--data", write("x")}, free...), []string{"director"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, code := refusedStart(t, tc.env, tc.args...)
			if code != exitRefused {
				t.Errorf("exit code %d, want %d", code, exitRefused)
			}
			for _, w := range tc.want {
				if !strings.Contains(text, w) {
					t.Errorf("%q is missing", w)
				}
			}
			if strings.Contains(text, "goroutine ") {
				t.Error("it panicked")
			}
			if t.Failed() {
				t.Logf("it said:\n%s", text)
			}
		})
	}
	p.stop()

	text, code := refusedStart(t, nil, append([]string{"--data", dir, "--set", "node.id=7"}, free...)...)
	if code != exitRefused || !strings.Contains(text, "node 1") || !strings.Contains(text, "node 7") || !strings.Contains(text, "node.id") {
		t.Errorf("as another node: exit code %d\n%s", code, text)
	}

	for name, meta := range map[string]string{"shorter than": "", "another version": strings.Repeat("x", 4096)} {
		if err := os.WriteFile(filepath.Join(dir, "millrace.meta"), []byte(meta), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, code := refusedStart(t, nil, append([]string{"--data", dir}, free...)...); code != exitRefused || !strings.Contains(text, name) || !strings.Contains(text, dir) {
			t.Errorf("millrace.meta of %d bytes: exit code %d\n%s", len(meta), code, text)
		}
	}
}

func TestStartWaitsForTheLockOfAProcessOnItsWayOut(t *testing.T) {
	dir := t.TempDir()
	held, err := raftlog.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() {
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	})
	startProcess(t, dir).stop()
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	p := startProcess(t, t.TempDir(), "--set", "shutdown.timeout.ms=60000")
	cl := client(t, p.kafka, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(20*time.Second))
	createTopic(t, cl, "t", 1, nil)
	p.signal(syscall.SIGINT)
	time.Sleep(2 * sameSignal)
	p.cmd.Process.Signal(syscall.SIGINT)
	// Either the stop was quicker than the second signal, or it ended the process.
	if code := p.wait(); code != 0 && code != exitAtOnce {
		t.Errorf("exit code %d", code)
	}
}

func TestClosedTerminalIsAStop(t *testing.T) {
	// Where the tests run under nohup, the broker is not to: a signal that is caught
	// here has its default meaning in a new process, one that is ignored stays so.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	p := startProcess(t, t.TempDir())
	p.signal(syscall.SIGHUP)
	if code := p.wait(); code != 0 || !strings.Contains(p.stderr(), "msg=stopped") {
		t.Errorf("exit code %d", code)
	}
}

func TestBrokerOutlivesWhoReadsItsLog(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin", "off")
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	w.Close()
	var addr string
	in := bufio.NewScanner(r)
	for in.Scan() {
		f := strings.Fields(in.Text())
		if len(f) > 1 && f[0] == "kafka" {
			addr = f[1]
		}
		if len(f) > 1 && f[0] == "millrace" && f[1] == "cluster" {
			break // the last line of the greeting
		}
	}
	r.Close()
	web := http.Client{Timeout: 10 * time.Second}
	if resp, err := web.Get("http://" + addr); err == nil { // which is logged
		resp.Body.Close()
		t.Fatal("a Kafka listener answers HTTP")
	}
	createTopic(t, client(t, addr), "t", 1, nil)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Two kinds, since the kernel may deliver two of one kind as one.
func TestSignalThatComesTwiceIsOne(t *testing.T) {
	for range 5 {
		p := startProcess(t, t.TempDir())
		p.signal(syscall.SIGTERM)
		p.cmd.Process.Signal(syscall.SIGINT)
		if code := p.wait(); code != 0 || !strings.Contains(p.stderr(), "msg=stopped") {
			t.Fatalf("exit code %d", code)
		}
	}
}

// Signals that keep coming, also while the process is about to exit, never change
// how it ends.
func TestSignalsDuringTheExitDoNotKill(t *testing.T) {
	p := startProcess(t, t.TempDir())
	ended := make(chan int, 1)
	go func() { ended <- p.wait() }()
	for {
		p.cmd.Process.Signal(syscall.SIGINT)
		select {
		case code := <-ended:
			if code != 0 && code != exitAtOnce {
				t.Errorf("exit code %d", code)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func TestStopAnswersWhoWaitsAndIsQuick(t *testing.T) {
	p := startProcess(t, t.TempDir(), "--set", "group.initial.rebalance.delay.ms=60000")
	cl := client(t, p.kafka)
	createTopic(t, cl, "t", 1, nil)
	poller := client(t, p.kafka, kgo.ConsumeTopics("t"), kgo.FetchMaxWait(30*time.Second))
	ctx := within(t, time.Minute)
	joiner := client(t, p.kafka, kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g")) // waits for the initial rebalance
	go poller.PollFetches(ctx)
	go joiner.PollFetches(ctx)
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	p.stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v while a fetch and a join waited", took)
	}
}

func TestAdminPages(t *testing.T) {
	p := startProcess(t, t.TempDir())
	cl := client(t, p.kafka)
	createTopic(t, cl, "t", 2, nil)
	produce(t, cl, "t", 0, 20)
	if code, body := p.get("/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := p.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d", code)
	}
	_, body := p.get("/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "millrace_") && !sample.MatchString(line) {
			t.Errorf("not a sample: %s", line)
		}
	}
	conditional := map[string]bool{"millrace_request_errors_total": true}
	for _, m := range admin.Table() {
		if !strings.Contains(body, "\n# TYPE "+m.Name+" ") && !conditional[m.Name] {
			t.Errorf("%s is in the table and not in /metrics", m.Name)
		}
	}
	for _, want := range []string{
		`millrace_request_duration_seconds_count{api="CreateTopics"} 1`,
		`millrace_topics 1`, `millrace_partitions 2`, `millrace_brokers 1`, `millrace_ready 1`, `millrace_disk_low 0`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	if n := strings.Count(body, "\n"); n > 2000 {
		t.Errorf("%d lines", n)
	}
	p.stop()
}

var sample = regexp.MustCompile(`^millrace_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+\n$`)

func TestTLSAndPlaintextSideBySide(t *testing.T) {
	cert, key, pool := certificate(t)
	p := startProcess(t, t.TempDir(),
		"--set", "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
		"--set", "ssl.certificate.file="+cert, "--set", "ssl.key.file="+key)
	plain := client(t, p.kafka)
	createTopic(t, plain, "t", 2, nil)
	produce(t, plain, "t", 0, 50)
	secure := client(t, p.listener("SSL"), kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	produce(t, secure, "t", 50, 100)
	checkAll(t, consume(t, secure, 100), 0, 100)
	p.stop()
}

func TestFileSystemWithoutDirectIO(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "millrace-test-")
	if err != nil {
		t.Fatalf("this test needs a tmpfs at /dev/shm: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := startProcess(t, dir)
	cl := client(t, p.kafka)
	createTopic(t, cl, "t", 1, nil)
	produce(t, cl, "t", 0, 100)
	if _, body := p.get("/metrics"); !strings.Contains(body, "\nmillrace_disk_direct_io 0\n") {
		t.Error("the metric does not say that there is no direct I/O")
	}
	if n := strings.Count(p.stderr(), "does not allow direct I/O"); n != 1 {
		t.Errorf("said %d times in the log", n)
	}
	p.kill()
	p = startProcess(t, dir)
	all := client(t, p.kafka, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	checkAll(t, consume(t, all, 100), 0, 100)
	all.Close()
	p.stop()
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(c)
	return certFile, keyFile, pool
}
