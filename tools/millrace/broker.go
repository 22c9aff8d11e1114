package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"millrace/coordinator/controller"
	"millrace/coordinator/group"
	"millrace/core"
	"millrace/core/budget"
	"millrace/core/config"
	"millrace/core/meta"
	"millrace/net/admin"
	"millrace/net/kafka"
	"millrace/net/listener"
	"millrace/raftlog"
	"millrace/shard"
)

// registerWait bounds how long a start waits for the controller to take the
// broker's registration.
const registerWait = 60 * time.Second

// broker is one running node: all parts joined.
type broker struct {
	// Immutable once started.
	cfg     *config.Config
	live    *live
	log     *slog.Logger
	dataDir string
	started time.Time
	dir     *raftlog.DirFS
	store   *raftlog.Store
	damaged map[core.PartitionID]error // logs that are not served
	kafka   *kafka.Server
	srv     *listener.Server
	admin   *admin.Server // nil when it is off
	self    meta.Broker
	bound   []listener.Bound
	// advertised is how clients of a listener reach this node, by its name.
	advertised map[string]kafka.Endpoint
	address    string // of the first listener, as clients reach it

	stopSpace  context.CancelFunc
	background sync.WaitGroup

	// Atomic.
	ready     atomic.Bool // registered and accepting, and not stopping yet
	broken    atomic.Bool // the journal failed
	diskFree  atomic.Int64
	diskTotal atomic.Int64
	disk      diskStats

	// By shard; see coordinators.
	coordinators []coordinators
	// Atomic; shared by all group machines.
	groupMemory *budget.Budget
}

// startBroker opens the data directory, makes shards and coordinators, binds the
// sockets, registers the node, waits for the elections it can decide alone and
// begins to accept clients. What it opened it closes again when it fails; the
// error is for a person.
func startBroker(cfg *config.Config, d disk, log *slog.Logger) (_ *broker, err error) {
	b := &broker{cfg: cfg, log: log, started: time.Now(), live: &live{base: cfg, node: core.NodeID(cfg.Int("node.id"))}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop(stopNow()))
		}
	}()
	last, laps := b.started, []any(nil)
	lap := func(name string) {
		now := time.Now()
		laps = append(laps, name, now.Sub(last).Round(time.Millisecond))
		last = now
	}
	if err := b.openData(d); err != nil {
		return nil, err
	}
	lap("recovery")
	if err := b.makeServer(); err != nil {
		return nil, err
	}
	lap("reading_logs")
	bound, err := b.srv.Listen()
	if err != nil {
		return nil, listenError(err, "--listen HOST:PORT")
	}
	b.advertise(bound)
	if addr := cfg.Text("admin.listen"); addr != "off" {
		b.admin, err = admin.Start(admin.Options{Listen: addr, Collect: b.collect, NotReady: b.notReady, Logf: b.logf})
		if err != nil {
			return nil, listenError(err, "--admin HOST:PORT, or off")
		}
	}
	if err := b.srv.Start(); err != nil {
		return nil, fmt.Errorf("the event loops do not start: %w", err)
	}
	if err := b.register(); err != nil {
		return nil, err
	}
	lap("registration")
	if err := b.awaitLeaders(leadersWait); err != nil {
		return nil, err
	}
	lap("elections")
	b.srv.Accept()
	b.log.Info("clients are accepted", append(laps, "took", time.Since(b.started).Round(time.Millisecond))...)
	b.ready.Store(true)
	return b, nil
}

// logf is how the parts log. Their lines are complete sentences, and tell of what an
// operator wants to know also where log.level is warn: a full disk, damage.
func (b *broker) logf(format string, args ...any) { b.log.Warn(fmt.Sprintf(format, args...)) }

// openData locks and recovers the data directory.
func (b *broker) openData(d disk) error {
	dir, err := filepath.Abs(b.cfg.Text("data.dir"))
	if err != nil {
		return fmt.Errorf("data directory %s: %w", b.cfg.Text("data.dir"), err)
	}
	b.dataDir = dir
	if b.dir, err = lockData(dir); err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return fmt.Errorf("%w; make %s writable or choose another directory with --data", err, dir)
		}
		return err
	}
	if !b.dir.Direct() {
		b.log.Warn("the file system does not allow direct I/O: writes go through the page cache and are made durable by fdatasync, which is slower", "data", dir)
	}
	n := shardCount(b.cfg)
	began := time.Now()
	store, found, err := raftlog.Open(timedFS{d(b.dir), &b.disk}, storeOptions(b.cfg, random(), b.logf), func(p core.PartitionID) core.ShardID { return core.ShardOf(p, n) })
	switch {
	case errors.Is(err, raftlog.ErrOtherNode):
		return fmt.Errorf("data directory %s: %w; set node.id to the number it was made with, or choose another directory with --data", dir, err)
	case errors.Is(err, raftlog.ErrOtherVersion):
		return fmt.Errorf("data directory %s: %w; choose another directory with --data if it is not one of Millrace's", dir, err)
	case err != nil:
		return fmt.Errorf("data directory %s: %w", dir, err)
	}
	b.store, b.damaged = store, found.Damaged
	b.log.Info("data directory recovered", "data", dir, "logs", found.Groups, "replayed_bytes", found.JournalBytes,
		"torn_tail_bytes", found.TornTailBytes, "damaged", len(found.Damaged), "took", time.Since(began).Round(time.Millisecond))
	for id, why := range found.Damaged {
		b.log.Error("a log is damaged: its partition is not served, all others are", "partition_id", id, "reason", why)
	}
	b.watchSpace()
	return nil
}

// lockWait is how long a start waits for the data directory of a process that is
// on its way out: a killed one gives the lock back when its memory is gone.
const lockWait = 3 * time.Second

// lockData opens the data directory, waiting a little for one that is in use.
func lockData(dir string) (*raftlog.DirFS, error) {
	for deadline := time.Now().Add(lockWait); ; time.Sleep(20 * time.Millisecond) {
		d, err := raftlog.OpenDir(dir)
		if !errors.Is(err, raftlog.ErrInUse) || time.Now().After(deadline) {
			return d, err
		}
	}
}

// random is a number that no other process has drawn.
func random() uint64 {
	var seed [8]byte
	rand.Read(seed[:]) // never fails; see crypto/rand
	return binary.LittleEndian.Uint64(seed[:])
}

// makeServer makes handlers, shards and coordinators.
func (b *broker) makeServer() error {
	controllerSeed, groupSeed := random(), random()
	image := func() *meta.Image { return b.srv.Image() }

	ko := kafkaOptions(b.cfg, b.logf)
	ko.Config = func() *config.Config { return b.live.at(image()) }
	ko.Advertised = func(listener string) (kafka.Endpoint, bool) {
		e, ok := b.advertised[listener]
		return e, ok
	}
	ko.DataDir = b.dataDir
	ko.DiskSpace = func() (free, total int64) { return b.diskFree.Load(), b.diskTotal.Load() }
	b.kafka = kafka.NewServer(ko)

	b.coordinators = make([]coordinators, shardCount(b.cfg))
	b.groupMemory = budget.New(b.cfg.Int("groups.memory.bytes"), nil)
	lo := listenerOptions(b.cfg, b.logf)
	lo.Store, lo.Kafka = b.store, b.kafka
	lo.Fatal = func(what string) { cannotGoOn(b.log, what) }
	lo.SendPeers = func(core.ShardID, []shard.PeerSend) { panic("BUG: a node without peers sends to one") }
	lo.Shard = shard.Options{
		Node: b.live.node,
		Seed: random(),
		Machine: func(id core.PartitionID, topic string, num int32) shard.StateMachine {
			switch {
			case id == core.MetadataPartition:
				return controller.New(controllerOptions(b.cfg, b.live, controllerSeed))
			case topic == offsetsTopic:
				m := group.New(group.Options{Partition: num, Seed: groupSeed, Image: image, Memory: b.groupMemory, Config: groupConfig(b.cfg)})
				b.addCoordinator(id, m)
				return m
			}
			return nil
		},
		TopicConfig: b.live.topicConfig,
		Limits:      shardLimits(b.cfg),
		Logf:        b.logf,
	}
	srv, err := listener.New(lo)
	if err != nil {
		return fmt.Errorf("data directory %s: %w", b.dataDir, err)
	}
	b.srv = srv
	return nil
}

// advertise decides how clients reach this node: by advertised.listeners, else
// by what was bound. A listener on all addresses is advertised by host name.
func (b *broker) advertise(bound []listener.Bound) {
	b.bound, b.advertised = bound, make(map[string]kafka.Endpoint, len(bound))
	told := make(map[string]config.Listener)
	for _, l := range b.cfg.Advertised() {
		told[l.Name] = l
	}
	for i, l := range bound {
		e := kafka.Endpoint{Host: l.Host, Port: l.Port}
		if a, ok := told[l.Name]; ok {
			e.Host = a.Host
			if a.Port != 0 {
				e.Port = int32(a.Port)
			}
		} else if ip := net.ParseIP(l.Host); l.Host == "" || ip != nil && ip.IsUnspecified() {
			e.Host = hostname()
			b.log.Warn("a listener on all addresses is advertised by host name; set advertised.listeners if clients cannot reach that", "listener", l.Name, "host", e.Host)
		}
		b.advertised[l.Name] = e
		if i == 0 {
			b.self = meta.Broker{ID: b.live.node, Host: e.Host, Port: e.Port, Rack: b.cfg.Text("broker.rack")}
			b.address = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
		}
	}
}

func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

// register tells the controller how clients reach this node. It is tried again
// until the metadata partition has a leader.
func (b *broker) register() error {
	deadline := time.Now().Add(registerWait)
	for {
		err := b.command(meta.RegisterBroker{Broker: b.self})
		if err == nil {
			return b.awaitSelf(deadline)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the broker cannot be registered with the controller: %w", err)
		}
		select {
		case err := <-b.srv.Failed():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaitSelf waits until the metadata that this node serves names it.
func (b *broker) awaitSelf(deadline time.Time) error {
	for !b.registered() {
		if time.Now().After(deadline) {
			return errors.New("the broker is registered with the controller but the metadata does not name it")
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (b *broker) registered() bool {
	im := b.srv.Image()
	if im == nil {
		return false
	}
	for _, x := range im.Brokers {
		if x == b.self {
			return true
		}
	}
	return false
}

// answer is a kafka.Continuation that hands a request back to the main
// goroutine.
type answer chan struct{}

// Resume implements kafka.Continuation.
func (a answer) Resume(shard.Request) { close(a) }

// command asks the controller and waits for the answer.
func (b *broker) command(body any) error {
	done := make(answer)
	q := &shard.Coordinate{Partition: core.MetadataPartition}
	q.Command.Body = body
	q.Owner = done
	owner := core.ShardOf(core.MetadataPartition, shardCount(b.cfg))
	if !b.srv.Post(owner, func(l *listener.Loop) { l.Submit(owner, q) }) {
		return errors.New("the event loop is busy")
	}
	<-done
	return errors.Join(q.Err, q.Command.Err)
}

func (b *broker) failed() <-chan error { return b.srv.Failed() }

// stop ends the broker. It returns once everything submitted is durable and the
// data directory is free for another process. What a start did not reach is left
// out.
func (b *broker) stop(ctx context.Context) (err error) {
	b.ready.Store(false)
	if b.srv != nil {
		err = b.srv.Stop(ctx)
	}
	if b.stopSpace != nil {
		b.stopSpace()
		b.background.Wait()
	}
	if b.admin != nil {
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err = errors.Join(err, b.admin.Close(soon))
	}
	if b.store != nil {
		err = errors.Join(err, b.store.Close())
	}
	if b.dir != nil {
		err = errors.Join(err, b.dir.Close())
	}
	return err
}

// stopNow is for stopping a broker that has served nobody.
func stopNow() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// watchSpace asks for the free space once a second, off everything that must not
// block.
func (b *broker) watchSpace() {
	ctx, cancel := context.WithCancel(context.Background())
	b.stopSpace = cancel
	ask := func() {
		free, total, err := b.dir.Space()
		if err != nil {
			b.log.Warn("the free space of the data directory is unknown", "error", err)
			return
		}
		b.diskFree.Store(free)
		b.diskTotal.Store(total)
	}
	ask()
	b.background.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				ask()
			}
		}
	})
}

// greet tells where the broker listens and how to connect.
func (b *broker) greet(w io.Writer) {
	fmt.Fprintf(w, "millrace %s, node %d, data in %s\n", buildVersion(), b.live.node, b.dataDir)
	for _, l := range b.bound {
		fmt.Fprintf(w, "kafka    %s (%s)\n", l.Addr(), l.Name)
	}
	if b.admin != nil {
		fmt.Fprintf(w, "admin    http://%s\n", b.admin.Addr())
	}
	fmt.Fprintf(w, "connect  kcat -b %s -L\n", b.address)
	fmt.Fprintf(w, "         millrace cluster describe --brokers %s\n", b.address)
}

func listenError(err error, flag string) error {
	var files *listener.CertificateError
	if errors.As(err, &files) {
		return fmt.Errorf("%w; ssl.certificate.file, ssl.key.file and ssl.truststore.file name PEM files that the broker can read", err)
	}
	addr := "the address"
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		addr = op.Addr.String()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: the port is in use; stop what listens there or choose another one with %s", addr, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("cannot listen on %s: this machine has no such address; choose another one with %s", addr, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("cannot listen on %s: not permitted; choose a port from 1024 on with %s", addr, flag)
	}
	return fmt.Errorf("cannot listen: %w; choose another address with %s", err, flag)
}
