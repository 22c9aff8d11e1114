package main

import (
	"fmt"
	"strings"
)

// client is one row of the table.
type client struct {
	name string
	// needs is the installer's unit that it depends on.
	needs string
	// command is the driver's command line up to --brokers.
	command func(in *installer) []string
	// cannot lists the scenarios that the client has no way to do, with the
	// reason; they are shown as "-".
	cannot map[string]string
	// autoCreates: it creates topics by producing to them, with the broker's
	// default number of partitions.
	autoCreates bool
	// ownValues: it makes up the records that it produces.
	ownValues bool
	// deletesGroup: its group scenario ends with the group deleted.
	deletesGroup bool
}

func goClient(name string) func(*installer) []string {
	return func(in *installer) []string { return []string{in.path("go", "clients"), "--client", name} }
}

func python(script string, args ...string) func(*installer) []string {
	return func(in *installer) []string {
		return append([]string{in.path("python", "bin", "python"), in.source("python", script)}, args...)
	}
}

// plainPython runs a driver that needs nothing but the standard library.
func plainPython(script string, args ...string) func(*installer) []string {
	return func(in *installer) []string { return append([]string{"python3", in.source("python", script)}, args...) }
}

func without(names string, reason string) map[string]string {
	m := map[string]string{}
	for n := range strings.FieldsSeq(names) {
		m[n] = reason
	}
	return m
}

const producing = "none gzip snappy lz4 zstd idempotent"

var clientTable = []client{
	{name: "java-client", needs: "java", command: func(in *installer) []string {
		return []string{"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", in.classpath(), "Client"}
	}},
	{name: "kafka-topics", needs: "java", command: plainPython("kafkatools.py", "topics"),
		cannot: without(producing+" consume group seek restart", "an admin tool")},
	{name: "java-console", needs: "java", command: plainPython("kafkatools.py", "console"),
		cannot: without("create delete seek", "no such option")},
	{name: "java-perf", needs: "java", command: plainPython("kafkatools.py", "perf"), ownValues: true,
		cannot: without("create delete consume group seek restart", "a load generator")},
	{name: "java-groups", needs: "java", command: plainPython("kafkatools.py", "groups"), deletesGroup: true,
		cannot: without("create delete consume restart "+producing, "an admin tool")},
	{name: "confluent", needs: "python", command: python("confluent.py")},
	{name: "kcat", needs: "kcat", command: plainPython("kcat.py"), autoCreates: true,
		cannot: without("delete", "no such command")},
	{name: "franz-go", needs: "go", command: goClient("franz")},
	{name: "sarama", needs: "go", command: goClient("sarama")},
	{name: "kafka-go", needs: "go", command: goClient("kafkago"),
		cannot: without("idempotent", "not in the client")},
	{name: "kafkajs", needs: "kafkajs", command: func(in *installer) []string {
		return []string{"node", in.source("kafkajs", "driver.js")}
	}},
	{name: "aiokafka", needs: "python", command: python("aio.py")},
	{name: "kafka-python", needs: "python", command: python("kafkapython.py")},
}

// cell is the outcome of one scenario with one client.
type cell struct {
	state string // "ok", "FAIL", "-" (the client cannot), "" (not run)
	note  string
}

type table struct {
	clients   []client
	scenarios []scenario
	cell      map[string]map[string]cell // by client, then scenario
}

func (t *table) cells() int {
	return t.count(func(c cell) bool { return c.state == "ok" || c.state == "FAIL" })
}

// red counts everything that is neither green nor impossible: what did not run
// counts too.
func (t *table) red() int {
	return t.count(func(c cell) bool { return c.state != "ok" && c.state != "-" })
}

func (t *table) count(f func(cell) bool) int {
	n := 0
	for _, c := range t.clients {
		for _, s := range t.scenarios {
			if f(t.cell[c.name][s.name]) {
				n++
			}
		}
	}
	return n
}

func (t *table) render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-14s", "client")
	for _, s := range t.scenarios {
		fmt.Fprintf(&b, "%*s", len(s.name)+2, s.name)
	}
	b.WriteString("\n")
	var notes []string
	for _, c := range t.clients {
		fmt.Fprintf(&b, "%-14s", c.name)
		for _, s := range t.scenarios {
			x := t.cell[c.name][s.name]
			state := x.state
			if state == "" {
				state = "NOT RUN"
			}
			fmt.Fprintf(&b, "%*s", len(s.name)+2, state)
			if x.state == "FAIL" {
				notes = append(notes, fmt.Sprintf("%s %s: %s", c.name, s.name, x.note))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("none gzip snappy lz4 zstd: produce with that codec and acks=0, 1, all; ok needs the right records in the right codec. -: the client cannot.\n")
	for _, n := range notes {
		b.WriteString(n + "\n")
	}
	b.WriteString("\n")
	return b.String()
}
