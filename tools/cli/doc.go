// Package cli holds the client commands of the millrace binary: topic, group,
// produce, consume, cluster, config and version.
//
// The commands speak the public Kafka protocol through franz-go and know nothing
// of a broker's internals, so they work on any Kafka. A command runs in the
// goroutine of main and may block on the network for as long as the dial and
// request timeouts in Options allow; an interrupt ends it at once. What a command
// reports as done has been acknowledged by the broker. Read Commands first.
package cli
