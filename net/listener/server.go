package listener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/budget"
	"millrace/core/hugepage"
	"millrace/core/meta"
	"millrace/shard"
)

// stockedPages are huge pages that lie ready for payloads: a few milliseconds of the
// fastest load, while the next are made.
const stockedPages = 4

// Server is the loops of one node with all that runs beside them:
//
//	srv, err := New(opts)    // shards over the store's logs; may block for long
//	bound, err := srv.Listen() // opens the sockets, serves nobody yet
//	err = srv.Start()        // loops, journal, jobs
//	srv.Accept()             // serves clients
//	err = srv.Stop(ctx)      // answers what waits, or fails it, and ends all of it
type Server struct {
	// Immutable once started.
	opts        Options
	clock       clock
	budget      *budget.Budget // of requests, of the node
	overtaking  *budget.Budget // the same for those that have wholly come
	loops       []*Loop
	journal     journal
	store       store
	pool        *pool
	pages       *hugepage.Stock // of all loops' arenas
	timekeeper  *timekeeper
	client      *gnet.Client
	byEventLoop map[gnet.EventLoop]*Loop
	doorbells   []net.Conn
	listeners   []*acceptor
	certs       []*certificates
	complaints  complaints
	serving     context.Context // ends when handshakes are to be given up
	endServing  context.CancelFunc
	cancel      context.CancelFunc // of the journal and what runs beside it
	background  sync.WaitGroup     // what blocks for the connections and beside the journal
	journalDone chan struct{}
	failed      chan error

	stopOnce sync.Once
	stopErr  error

	// Atomic.
	connID   atomic.Uint64
	stopping atomic.Bool // no further request is read
	image    atomic.Pointer[meta.Image]
	refuse   struct {
		max, perIP, handshake atomic.Uint64
	}

	mu struct {
		sync.Mutex
		connections int
		perHost     map[string]int
	}
}

// New makes the shards. It blocks while they read their logs.
func New(opts Options) (*Server, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	srv := newServer(opts)
	srv.store, srv.journal = opts.Store, opts.Store.Journal()
	for _, l := range srv.loops {
		o := opts.Shard
		o.ID, o.Count, o.Logs, o.Arena = l.id, opts.Shards, opts.Store.LogSet(l.id), l.arena
		o.SpaceState = opts.Store.SpaceState
		s, err := shard.New(o)
		if err != nil {
			return nil, fmt.Errorf("starting shard %d: %w", l.id, err)
		}
		l.logs, l.shard, l.shardStats = o.Logs, s, s.Stats
		l.worker = opts.Kafka.NewWorker(l)
	}
	return srv, nil
}

// newServer makes loops without their shards and handlers.
func newServer(opts Options) *Server {
	srv := &Server{
		opts: opts, clock: newClock(),
		budget:      budget.New(opts.NodeBytesMax-opts.NodeBytesMax/overtakeShare, nil),
		overtaking:  budget.New(opts.NodeBytesMax/overtakeShare, nil),
		pages:       hugepage.NewStock(stockedPages),
		journalDone: make(chan struct{}),
		failed:      make(chan error, 1),
	}
	srv.serving, srv.endServing = context.WithCancel(context.Background())
	srv.mu.perHost = make(map[string]int)
	srv.complaints.logf = opts.Logf
	for i := range opts.Shards {
		l := &Loop{
			id: core.ShardID(i), srv: srv,
			arena:      arena.NewStocked(opts.ArenaBytes, srv.pages),
			budget:     budget.New(opts.ShardBytesMax-opts.ShardBytesMax/overtakeShare, srv.budget),
			overtaking: budget.New(opts.ShardBytesMax/overtakeShare, srv.overtaking),
			replies:    replyBytes{max: opts.ReplyBytesMax / int64(opts.Shards)},
			inbox:      newInbox(opts.InboxMax),
			outbox:     make([][]message, opts.Shards),
			sessions:   make(map[*session]struct{}),
			spill:      make([]byte, spillSmallBytes),
		}
		l.deadline.Store(noDeadline)
		srv.loops = append(srv.loops, l)
	}
	srv.timekeeper = newTimekeeper(srv.clock, srv.loops)
	srv.pool = newPool(opts.IOWorkers)
	return srv
}

// Start runs the loops, the journal and what stands beside it. Clients are served
// from Accept on; until then the node can tell the controller of itself.
func (srv *Server) Start() error {
	opts := []gnet.Option{
		gnet.WithNumEventLoop(len(srv.loops)),
		gnet.WithReadBufferCap(gnetReadBytes),
		gnet.WithLogger(gnetLog{srv.opts.Logf}),
	}
	var err error
	if srv.client, err = gnet.NewClient(&events{srv: srv}, opts...); err != nil {
		return fmt.Errorf("making the event loops: %w", err)
	}
	if err := srv.client.Start(); err != nil {
		return fmt.Errorf("starting the event loops: %w", err)
	}
	if err := srv.enrolLoops(); err != nil {
		err = errors.Join(err, srv.client.Stop())
		srv.client = nil
		return err
	}
	go srv.timekeeper.run()
	srv.pool.start(srv.guard)
	srv.startStorage()
	for _, l := range srv.loops {
		l.force(message{kind: msgFunc, fn: l.begin})
	}
	return nil
}

// Accept begins to accept connections, after Start.
func (srv *Server) Accept() {
	for _, a := range srv.listeners {
		a.start()
	}
}

// guard is deferred where a goroutine begins or a loop is entered. A FATAL panic
// ends the process with one line; any other goes on from here, and its trace has
// the frames that led to it.
func (srv *Server) guard() {
	v := recover()
	if v == nil {
		return
	}
	if what, fatal := core.FatalText(v); fatal && srv.opts.Fatal != nil {
		srv.opts.Fatal(what)
	}
	panic(v)
}

// begin is a loop's first turn.
func (l *Loop) begin() {
	if l.srv.pinned() {
		if err := pinThread(int(l.id)); err != nil {
			l.srv.opts.Logf("shard %d is not pinned: %v", l.id, err)
		}
	}
	l.sweepLater()
	l.watchUnread()
	// A turn without events tells when the shard wants its timer.
	l.dirty = true
}

// pinned decides shard.pin=auto: a pinned loop must never compete with the
// collector and the journal's thread.
func (srv *Server) pinned() bool {
	return srv.opts.Pin == PinOn || srv.opts.Pin == PinAuto && runtime.NumCPU() > len(srv.loops)+2
}

// Failed gives the error that ends the trust in the device: the process is to
// stop serving, restart and replay.
func (srv *Server) Failed() <-chan error { return srv.failed }

// Image is the newest metadata; nil until the first one is published. Any
// goroutine.
func (srv *Server) Image() *meta.Image { return srv.image.Load() }

// Post calls fn on the loop of a shard; false when its inbox is full.
func (srv *Server) Post(id core.ShardID, fn func(l *Loop)) bool {
	l := srv.loops[id]
	return l.Post(func() { fn(l) })
}

// publish makes a new Image the one that is served, and tells every shard.
func (srv *Server) publish(im *meta.Image) {
	srv.image.Store(im)
	for _, l := range srv.loops {
		l.force(message{kind: msgImage, image: im})
	}
}

// Stop stops accepting, answers what is under way or fails it when ctx ends,
// writes what was submitted, and ends every goroutine.
func (srv *Server) Stop(ctx context.Context) error {
	srv.stopOnce.Do(func() { srv.stopErr = srv.stop(ctx) })
	return srv.stopErr
}

func (srv *Server) stop(ctx context.Context) error {
	for _, a := range srv.listeners {
		a.stop()
	}
	if srv.client == nil {
		return nil // never started
	}
	srv.stopping.Store(true)
	for _, l := range srv.loops {
		l.force(message{kind: msgFunc, fn: l.beginStop})
	}
	srv.awaitQuiet(ctx)
	srv.endServing()
	for _, l := range srv.loops {
		l.force(message{kind: msgFunc, fn: l.closeAll})
	}
	for srv.connectionCount() > 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	close(srv.timekeeper.stop)
	<-srv.timekeeper.done
	srv.stopStorage()
	srv.pool.close()
	err := srv.client.Stop()
	for _, c := range srv.doorbells {
		err = errors.Join(err, c.Close())
	}
	return err
}

// awaitQuiet returns when no request is under way, or ctx ends.
func (srv *Server) awaitQuiet(ctx context.Context) {
	for ctx.Err() == nil {
		busy := make(chan bool, len(srv.loops))
		for _, l := range srv.loops {
			l.force(message{kind: msgFunc, fn: func() { busy <- l.busy() }})
		}
		any := false
		for range srv.loops {
			select {
			case b := <-busy:
				any = any || b
			case <-ctx.Done():
				return
			}
		}
		if !any {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// beginStop reads no further request and asks the shard to answer its waiters.
func (l *Loop) beginStop() {
	for s := range l.sessions {
		if s.paused == notPaused {
			s.pause(pauseStop)
		}
	}
	l.step(shard.Event{Kind: shard.EventShutdown})
}

// busy says whether requests are under way or replies wait to be sent.
func (l *Loop) busy() bool {
	for s := range l.sessions {
		if s.slots.len() > 0 || len(s.out) > 0 {
			return true
		}
	}
	return false
}

func (l *Loop) closeAll() {
	l.shut = true
	for s := range l.sessions {
		if !s.closing {
			s.closing = true
			l.closing = append(l.closing, s)
		}
	}
}
