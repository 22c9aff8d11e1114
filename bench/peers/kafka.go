package peers

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed kafka/pom.xml
var kafkaPOM []byte

// KafkaOptions say how to run Apache Kafka 4.4 as one combined node.
type KafkaOptions struct {
	Cache  string   // where the jars live, once for all runs; empty: build/cache/kafka of this module
	Dir    string   // folder for the configuration, the data directory and the output
	Data   string   // data directory; empty: Dir/data
	Addr   string   // host:port to listen on and to advertise; empty: a free port of 127.0.0.1
	More   []string // further listeners, PROTOCOL://host:port
	HeapMB int      // 0: 768
	Config []string // name=value lines that override the ones below
	Format []string // appended to the command that formats the data directory
}

// NewKafka installs Kafka's jars (Maven), formats a data directory that is not
// formatted yet, and prepares the broker; it does not start it.
func NewKafka(o KafkaOptions) (Broker, error) {
	libs, err := KafkaLibs(o.Cache)
	if err != nil {
		return nil, err
	}
	addr, err := listenAddr(o.Addr)
	if err != nil {
		return nil, err
	}
	controller, err := FreePort()
	if err != nil {
		return nil, err
	}
	p := &process{name: "kafka", addr: addr, dataDir: o.Data, logPath: filepath.Join(o.Dir, "broker.log")}
	if p.dataDir == "" {
		p.dataDir = filepath.Join(o.Dir, "data")
	}
	heap := o.HeapMB
	if heap == 0 {
		heap = 768
	}
	properties := filepath.Join(o.Dir, "kafka.properties")
	listeners := strings.Join(append([]string{"PLAINTEXT://" + p.addr}, o.More...), ",")
	lines := append([]string{
		"process.roles=broker,controller", "node.id=1",
		fmt.Sprintf("controller.quorum.voters=1@127.0.0.1:%d", controller),
		fmt.Sprintf("listeners=%s,CONTROLLER://127.0.0.1:%d", listeners, controller),
		"advertised.listeners=" + listeners,
		"controller.listener.names=CONTROLLER", "log.dirs=" + p.dataDir,
		"offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		"share.coordinator.state.topic.replication.factor=1", "share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
	}, o.Config...)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(properties, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	classpath := filepath.Join(libs, "*")
	// Formatting again is harmless: --ignore-formatted leaves data alone.
	format := exec.Command("java", append([]string{"-cp", classpath, "kafka.tools.StorageTool", "format",
		"--ignore-formatted", "-t", "TWlsbHJhY2VQZWVyS2Fma2", "-c", properties}, o.Format...)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format %s for kafka: %w\n%s", p.dataDir, err, out)
	}
	p.command = func() *exec.Cmd {
		return exec.Command("java", fmt.Sprintf("-Xmx%dm", heap), "-XX:+UseG1GC", "-cp", classpath, "kafka.Kafka", properties)
	}
	return p, nil
}

// KafkaLibs returns the folder with Kafka 4.4's jars (broker, tools and
// clients), which it fills by Maven when it is not complete. cache as in
// KafkaOptions.
func KafkaLibs(cache string) (string, error) {
	if cache == "" {
		root, err := Root()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(root, "build", "cache", "kafka")
	}
	libs := filepath.Join(cache, "libs")
	pom := filepath.Join(cache, "pom.xml")
	if have, err := os.ReadFile(filepath.Join(cache, "complete.xml")); err == nil && string(have) == string(kafkaPOM) {
		return libs, nil
	}
	if err := os.MkdirAll(libs, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(pom, kafkaPOM, 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DoutputDirectory="+libs)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch kafka's jars with maven: %w\n%s", err, out)
	}
	return libs, os.WriteFile(filepath.Join(cache, "complete.xml"), kafkaPOM, 0o644)
}
