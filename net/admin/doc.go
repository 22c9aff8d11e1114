// Package admin is the broker's HTTP door for operators: metrics, health,
// readiness and profiles. It has no authentication and listens on the loopback
// address unless told otherwise.
//
// Its handlers run in net/http's goroutines and may block on their sockets and,
// for at most a second, on an answer of the event loops. Nothing here is
// durable, and nothing on the data path waits for it. Read Server first, then
// the table of metrics in table.go.
package admin
