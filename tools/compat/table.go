package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// client is one column of a table.
type client struct {
	name string
	// needs is the installer's unit that it depends on.
	needs string
	// command is the driver's command line up to --brokers.
	command func(in *installer) []string
	// cannot lists the scenarios that the client has no way to do, with the
	// reason; they are shown as "-". "grow" and "partitions" are commands that
	// scenarios do without.
	cannot map[string]string
	// autoCreates: it creates topics by producing to them, with the broker's
	// default number of partitions.
	autoCreates bool
	// badTopic are the codes that it shows for a topic name that cannot be, nil for
	// the right one: some look at the name themselves or take the topic for unknown.
	badTopic []int
	// eager is the name of its eager assignor, if not range.
	eager string
	// resetsBySentinel: it commits -2 for the start.
	resetsBySentinel bool
	// noCoordinator is what it says when there is no coordinator, if that is all
	// that it says.
	noCoordinator string
	// ownValues: it makes up the records that it produces.
	ownValues bool
	// deletesGroup: its group scenario ends with the group deleted.
	deletesGroup bool
}

func (c client) eagerAssignor() string {
	if c.eager != "" {
		return c.eager
	}
	return "range"
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

// without gives one reason for several scenarios.
func without(names string, reason string) map[string]string {
	m := map[string]string{}
	for n := range strings.FieldsSeq(names) {
		m[n] = reason
	}
	return m
}

func join(lists ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, l := range lists {
		maps.Copy(all, l)
	}
	return all
}

// librdkafkaBadTopic: it says "unknown topic" when the metadata come while it takes
// the record, with Apache Kafka as well.
var librdkafkaBadTopic = []int{invalidTopic, unknownTopic}

// clientTable are the client libraries. Their drivers are described in
// clients/README.md.
var clientTable = []client{
	{name: "franz-go", needs: "go", command: goClient("franz")},
	{name: "sarama", needs: "go", command: goClient("sarama")},
	{name: "kafka-go", needs: "go", command: goClient("kafkago"), badTopic: []int{unknownTopic}, cannot: join(
		without("idempotent-cut transaction", "its writer is neither idempotent nor transactional"),
		without("delete-records", "no such admin function"),
		without("group-coop", "no cooperative assignor"),
		without("group-static group-fenced", "its consumer group has no group.instance.id"))},
	{name: "confluent-python", needs: "python", command: python("confluent.py"), badTopic: librdkafkaBadTopic},
	{name: "librdkafka-2.0.2", needs: "librdkafka-2.0.2", command: func(in *installer) []string {
		return []string{"/usr/bin/python3", in.source("python", "confluent.py")}
	}, badTopic: librdkafkaBadTopic, cannot: without("delete-records delete-group", "not in confluent-kafka 1.7.0, the binding of that age")},
	{name: "kcat-1.7.1", needs: "kcat", command: plainPython("kcat.py"), autoCreates: true, badTopic: librdkafkaBadTopic, cannot: join(
		without("delete-topic delete-records delete-group grow reset-start reset-end reset-offset reset-time reset-shift", "no such command"),
		without("invalid-record", "it cannot choose a timestamp"),
		without("commit-resume", "it commits only by itself, all the time"))},
	{name: "rdkafka-rust", needs: "rust", command: func(in *installer) []string {
		return []string{in.path("rust-target", "debug", "millrace-compat-rust")}
	}, badTopic: librdkafkaBadTopic},
	{name: "aiokafka", needs: "python", command: python("aio.py"), cannot: join(
		without("group-coop", "no cooperative assignor"),
		without("group-fenced", "it does not know of fencing, and joins again in place of the other"),
		without("invalid-topic", "it takes the refusal for passing and waits until its timeout"),
		without("delete-group", "no such admin function"))},
	{name: "kafka-python", needs: "python", command: python("kafkapython.py"), badTopic: []int{noCode},
		cannot: join(
			without("add-partitions", "a poll that ends in the middle of a rebalance, on a busy machine, leaves it without partitions; with Apache Kafka as well"),
			without("group-fenced", "only a commit tells it, and it reads on until then"))},
	{name: "java-4.4", needs: "java", command: func(in *installer) []string { return in.javaClient("java", in.libs()) }},
	{name: "java-3.9", needs: "java-3.9", command: func(in *installer) []string {
		return in.javaClient("java-3.9", in.path("java-3.9-libs"))
	}},
	{name: "kafkajs", needs: "kafkajs", command: nodeClient("kafkajs.js"), eager: "RoundRobinAssigner",
		resetsBySentinel: true, noCoordinator: "Failed to find group coordinator",
		cannot: map[string]string{
			"group-coop":   "no cooperative assignor",
			"group-static": "no group instance ID",
			"group-fenced": "no group instance ID",
		}},
	{name: "confluent-js", needs: "confluent-js", command: nodeClient("confluent.js"), badTopic: librdkafkaBadTopic,
		cannot: without("group-fenced", "it tells a consumer's errors to its log alone, without their codes")},
}

// cell is the outcome of one scenario with one client.
type cell struct {
	state string // "ok", "FAIL", "-" (the client cannot), "" (not run)
	note  string
}

type table struct {
	title     string
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

// head breaks a name into two lines.
func head(name string) [2]string {
	a, b, _ := strings.Cut(name, "-")
	return [2]string{a, b}
}

// render prints a row for each scenario and a column for each client, then what
// is red and why, and what clients cannot do and why.
func (t *table) render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", t.title)
	wide := 0
	for _, s := range t.scenarios {
		wide = max(wide, len(s.name))
	}
	width := func(c client) int { h := head(c.name); return max(len(h[0]), len(h[1]), len("NOT RUN")) + 1 }
	for line := range 2 {
		fmt.Fprintf(&b, "%-*s", wide, "")
		for _, c := range t.clients {
			fmt.Fprintf(&b, "%*s", width(c), head(c.name)[line])
		}
		b.WriteString("\n")
	}
	var red []string
	reasons := map[string][]string{}
	for _, s := range t.scenarios {
		fmt.Fprintf(&b, "%-*s", wide, s.name)
		for _, c := range t.clients {
			x := t.cell[c.name][s.name]
			state := x.state
			switch state {
			case "":
				state = "NOT RUN"
			case "FAIL":
				red = append(red, fmt.Sprintf("%s %s: %s", c.name, s.name, x.note))
			case "-":
				k := c.name + ": " + x.note
				reasons[k] = append(reasons[k], s.name)
			}
			fmt.Fprintf(&b, "%*s", width(c), state)
		}
		b.WriteString("\n")
	}
	var cannot []string
	for k, names := range reasons {
		cannot = append(cannot, fmt.Sprintf("- %s (%s)", k, strings.Join(names, ", ")))
	}
	slices.Sort(cannot)
	for _, line := range append(cannot, red...) {
		b.WriteString(line + "\n")
	}
	return b.String()
}
