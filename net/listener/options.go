package listener

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"millrace/core"
	"millrace/net/kafka"
	"millrace/raftlog"
	"millrace/shard"
)

// Protocol is what a listener speaks under the Kafka protocol.
type Protocol int

const (
	// Plaintext is Kafka's PLAINTEXT.
	Plaintext Protocol = iota
	// SSL is TLS, as Kafka calls it.
	SSL
)

// String is Kafka's name of p.
func (p Protocol) String() string {
	if p == SSL {
		return "SSL"
	}
	return "PLAINTEXT"
}

// Listen is one listener.
type Listen struct {
	Name     string
	Protocol Protocol
	Host     string // empty: all addresses
	Port     int    // 0: a free one
	// TLS is needed where Protocol is SSL.
	TLS *TLSFiles
}

// TLSFiles are the PEM files of a TLS listener, read again when they change.
type TLSFiles struct {
	Certificate, Key string
	// ClientCAs is needed unless ClientAuth is "none".
	ClientCAs  string
	ClientAuth string // "none", "requested", "required"
	// CheckEvery is how often the files are looked at.
	CheckEvery time.Duration
}

// Pin says whether loops are bound to cores.
type Pin string

// The values of shard.pin.
const (
	PinAuto Pin = "auto"
	PinOn   Pin = "on"
	PinOff  Pin = "off"
)

// Options make a Server. Zero values of the limits are faults; DefaultOptions
// has all of them.
type Options struct {
	Listens []Listen
	Shards  int
	Pin     Pin

	// Fatal is called on the goroutine of a FATAL panic, in a loop, the journal or a
	// job, with what failed. It ends the process. Without it such a panic goes on
	// like every other.
	Fatal func(what string)

	// Store is the data directory; the Server runs its journal and jobs and does
	// not close it.
	Store *raftlog.Store
	// Shard are the settings of the shards. ID, Count, Logs, Arena and SpaceState
	// are filled in.
	Shard shard.Options
	// Kafka serves the requests.
	Kafka *kafka.Server
	// SendPeers takes frames for other nodes from a loop; it must not block and
	// owns the frames' buffers.
	SendPeers func(from core.ShardID, sends []shard.PeerSend)

	ConnectionsMax      int   // of the node
	ConnectionsPerIPMax int   // of one address
	RequestBytesMax     int32 // one request
	InflightMax         int   // requests of one connection
	ConnBytesMax        int64 // request bytes of one connection
	ConnOutBytesMax     int64 // reply bytes that wait for one client; beyond it its requests are not read
	NodeBytesMax        int64 // request bytes of the node
	ReplyBytesMax       int64 // bytes of replies in the heap of the node; beyond it who does not read is not served
	ShardBytesMax       int64 // request bytes of one shard's connections
	ArenaBytes          int64 // payload memory of one shard
	InboxMax            int   // messages that wait for one loop
	IdleMax             time.Duration
	StallMax            time.Duration // a request of which no more bytes come
	IOWorkers           int

	Logf func(format string, args ...any)
}

// DefaultOptions are the limits for a machine of average size.
func DefaultOptions() Options {
	return Options{
		Shards:              1,
		Pin:                 PinAuto,
		ConnectionsMax:      100_000,
		ConnectionsPerIPMax: 1<<31 - 1,
		RequestBytesMax:     100 << 20,
		InflightMax:         128,
		ConnBytesMax:        16 << 20,
		ConnOutBytesMax:     4 << 20,
		NodeBytesMax:        128 << 20,
		ReplyBytesMax:       64 << 20,
		ShardBytesMax:       128 << 20,
		ArenaBytes:          512 << 20,
		InboxMax:            8192,
		IdleMax:             10 * time.Minute,
		StallMax:            30 * time.Second,
		IOWorkers:           4,
	}
}

// validate names every fault at once.
func (o *Options) validate() error {
	var faults []error
	positive := func(name string, n int64) {
		if n <= 0 {
			faults = append(faults, fmt.Errorf("%s is %d, it must be positive", name, n))
		}
	}
	positive("Shards", int64(o.Shards))
	positive("ConnectionsMax", int64(o.ConnectionsMax))
	positive("ConnectionsPerIPMax", int64(o.ConnectionsPerIPMax))
	positive("RequestBytesMax", int64(o.RequestBytesMax))
	positive("InflightMax", int64(o.InflightMax))
	positive("ConnBytesMax", o.ConnBytesMax)
	positive("ConnOutBytesMax", o.ConnOutBytesMax)
	positive("NodeBytesMax", o.NodeBytesMax)
	positive("ShardBytesMax", o.ShardBytesMax)
	positive("ReplyBytesMax", o.ReplyBytesMax)
	positive("ArenaBytes", o.ArenaBytes)
	positive("InboxMax", int64(o.InboxMax))
	positive("IdleMax", int64(o.IdleMax))
	positive("StallMax", int64(o.StallMax))
	if o.IOWorkers < 2 {
		faults = append(faults, fmt.Errorf("IOWorkers is %d, it must be at least 2: history reads leave one free", o.IOWorkers))
	}
	if o.Shards > shardsMax {
		faults = append(faults, fmt.Errorf("%d shards, gnet has at most %d loops", o.Shards, shardsMax))
	}
	if o.Logf == nil {
		faults = append(faults, errors.New("no Logf is set"))
	}
	for _, l := range o.Listens {
		if l.Protocol == SSL && l.TLS == nil {
			faults = append(faults, fmt.Errorf("listener %s has no certificate", l.Name))
		}
	}
	return errors.Join(faults...)
}

// shardsMax is gnet's own limit on its loops.
const shardsMax = 256

// Bound is a listener as it was opened.
type Bound struct {
	Name     string
	Protocol Protocol
	Host     string
	Port     int32 // the chosen one
}

// Addr is HOST:PORT.
func (b Bound) Addr() string { return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) }
