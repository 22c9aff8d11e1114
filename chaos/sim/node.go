package sim

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"millrace/chaos/sim/vdisk"
	"millrace/coordinator/controller"
	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/raftlog"
	"millrace/shard"
)

const nodeID core.NodeID = 1

// node is one run of the broker process, from start to crash.
type node struct {
	s    *Sim
	dead bool
	// started says that the start was not refused.
	started bool
	store   *raftlog.Store
	shards  []*shardProc
	image   *meta.Image

	calls       []*call // sent and not answered
	submitted   int     // turns given to the journal and not done
	journalBusy bool
	journalLink []link
	jobs        []*poolJob
	jobsRunning int
	registered  bool
	refusal     error     // of the last attempt to register
	skew        core.Tick // of the process's clock; it never shrinks
	failing     bool      // the journal has failed, and the process is to end
}

type shardProc struct {
	n     *node
	id    core.ShardID
	sh    *shard.Shard
	arena *arena.Arena
	logs  *raftlog.LogSet
	inbox []shard.Event
	out   shard.Effects
	// turnDue says that a turn is scheduled.
	turnDue  bool
	timerAt  core.Tick
	timerSeq int
	toShards []link // order of what this loop sends to each shard
}

// process runs f as a part of the process: a power cut, and a FATAL panic where
// the disk misbehaves, end the process; any other panic ends the history.
func (n *node) process(what string, f func()) {
	if n.dead {
		return
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *vdisk.PowerCut:
			n.s.trace("%s: %v", what, p)
			n.s.cutWithin(p)
		default:
			text := fmt.Sprint(p)
			if strings.HasPrefix(text, "FATAL") && n.s.p.kind >= KindEIO {
				n.s.trace("%s died: %s", what, text)
				n.s.stats.Fatal++
				n.s.crash(vdisk.Sampled(n.s.rng))
				return
			}
			n.s.fail(fmt.Errorf("panic in %s: %s\n%s", what, text, debug.Stack()))
		}
	}()
	f()
}

// after schedules f for as long as the process lives.
func (n *node) after(d core.Tick, what string, f func()) {
	n.s.after(d, func() { n.process(what, f) })
}

func (n *node) via(l *link, d core.Tick, what string, f func()) {
	n.s.via(l, d, func() { n.process(what, f) })
}

// clock is what the process takes for the time: the wall clock of its start, and
// from then on a clock that never goes back.
func (n *node) clock() core.Tick { return n.s.now + n.skew }

const (
	skewMax  = 6 * 3600 * core.Second // of the wall clock at a start, either way
	pauseMax = 3 * 3600 * core.Second
)

// pauses lets the process find hours gone by, once in a while, as one that was
// stopped or whose machine slept does.
func (n *node) pauses() {
	n.after(n.s.between(core.Second, 20*core.Second), "pause", func() {
		n.skew += n.s.between(60*core.Second, pauseMax)
		n.s.stats.ClockJumps++
		n.s.trace("the process has missed time: its clock is %d s ahead", n.skew/core.Second)
		for _, p := range n.shards {
			p.timerSeq++ // the armed one would be late
			p.timerAt = 0
			p.post(shard.Event{Kind: shard.EventTimer})
		}
	})
}

// start makes the process on what the disk holds. It returns the error that
// makes the process refuse to start.
func (n *node) start() error {
	s := n.s
	if s.p.clockJumps {
		n.skew = s.between(-skewMax, skewMax)
		s.stats.ClockJumps++
		n.pauses()
	}
	opts := raftlog.Options{
		ShardCount: s.p.shards, JournalFileBytes: s.p.journalFile, JournalSpare: s.p.journalSpare, JournalFilesMax: s.p.journalMax, FrameBytes: s.p.frameBytes,
		DirectBytes: s.p.directBytes, CacheBytes: s.p.cacheBytes, ReserveBytes: reserveBytes, InstanceID: s.seed + 1,
		Logf: func(f string, a ...any) { s.trace("log: "+f, a...) },
	}
	store, rec, err := raftlog.Open(s.disk.FS(), opts, func(id core.PartitionID) core.ShardID { return core.ShardOf(id, s.p.shards) })
	if err != nil {
		return err
	}
	n.store = store
	s.opened(rec)
	n.journalLink = make([]link, s.p.shards)
	for i := range s.p.shards {
		p := &shardProc{n: n, id: core.ShardID(i), toShards: make([]link, s.p.shards)}
		p.arena = arena.NewHeap(s.p.arenaBytes)
		p.logs = store.LogSet(p.id)
		p.sh, err = shard.New(shard.Options{
			ID: p.id, Count: s.p.shards, Node: nodeID, Logs: p.logs, Arena: p.arena,
			Seed: s.p2seed(i), Machine: n.machine, TopicConfig: s.topicConfig, Limits: limits,
			SpaceState: store.SpaceState,
			Logf:       func(f string, a ...any) { s.trace(fmt.Sprintf("shard %d: ", p.id)+f, a...) },
		})
		if err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		n.shards = append(n.shards, p)
	}
	for _, p := range n.shards {
		p.post(shard.Event{Kind: shard.EventTimer})
	}
	n.prepareLater(s.between(core.Millisecond, 50*core.Millisecond))
	n.spaceLater()
	n.register()
	return nil
}

// machine makes the coordinators of the internal partitions.
func (n *node) machine(id core.PartitionID, topic string, num int32) shard.StateMachine {
	if id == core.MetadataPartition {
		return controller.New(controller.Options{Node: nodeID, Seed: n.s.rng.Uint64(), DefaultPartitions: 1, DefaultReplication: 1})
	}
	return n.groupMachine(topic, num)
}

// register tells the controller of this node, as production does at each start,
// until it has been heard.
func (n *node) register() {
	cmd := meta.RegisterBroker{Broker: meta.Broker{ID: nodeID, Host: "sim", Port: 9092}}
	n.s.command(core.MetadataPartition, cmd, 5*core.Second, func(reply any, err error) {
		if err != nil && !n.dead {
			n.refusal = err
			n.after(50*core.Millisecond, "register", n.register)
			return
		}
		n.registered, n.refusal = err == nil, err
	})
}

// post puts an event into a shard's inbox and makes sure of a turn.
func (p *shardProc) post(ev shard.Event) {
	p.inbox = append(p.inbox, ev)
	if p.turnDue {
		return
	}
	p.turnDue = true
	delay := p.n.s.between(1, 60_000)
	if p.n.s.chance(0.002) { // the loop is late
		delay = p.n.s.between(core.Millisecond, 40*core.Millisecond)
	}
	p.n.after(delay, "turn", p.turn)
}

// turn is one turn of a shard's loop.
func (p *shardProc) turn() {
	n, s := p.n, p.n.s
	p.turnDue = false
	events := p.inbox
	p.inbox = nil
	for i := range events {
		p.sh.Step(n.clock(), events[i], &p.out)
	}
	n.watchFailure() // the end of a flush job may have told
	p.sh.Finish(n.clock(), &p.out)
	out := &p.out
	if s.tracing() {
		s.trace("shard %d turn: %v -> turn %v, %d jobs, %d done, timer %v", p.id, kindsOf(events), out.Turn != nil, len(out.Jobs), len(out.Done), out.NextTimer)
	}
	if out.Fatal != nil {
		s.fatal(out.Fatal)
		return
	}
	if out.Turn != nil {
		n.store.Journal().Submit(out.Turn)
		n.submitted++
		n.commitSoon()
	}
	if len(out.PeerSends) > 0 {
		s.fail(errors.New("a node without peers sent a frame"))
	}
	if out.Image != nil {
		n.publish(p, out.Image)
	}
	for _, j := range out.Jobs {
		n.startJob(p, j)
	}
	for _, req := range out.Done {
		n.answer(p, req)
	}
	p.setTimer(out.NextTimer)
	out.Reset()
}

func (p *shardProc) setTimer(at core.Tick) {
	if at == p.timerAt {
		return
	}
	p.timerSeq++
	p.timerAt = at
	if at == 0 {
		return
	}
	seq := p.timerSeq
	// Timers are never early and often late.
	p.n.after(at-p.n.clock()+p.n.s.between(0, 2*core.Millisecond), "timer", func() {
		if seq == p.timerSeq {
			p.timerAt = 0
			p.post(shard.Event{Kind: shard.EventTimer})
		}
	})
}

// publish replaces the image and tells every shard.
func (n *node) publish(from *shardProc, im *meta.Image) {
	if n.image != nil && im.Version < n.image.Version {
		n.s.fail(fmt.Errorf("image %d published after image %d", im.Version, n.image.Version))
		return
	}
	n.s.trace("image %d published: %d topics", im.Version, im.TopicCount())
	n.image = im
	for _, p := range n.shards {
		n.via(&from.toShards[p.id], n.s.between(0, 200_000), "image", func() { p.post(shard.Event{Kind: shard.EventImage, Image: im}) })
	}
}

// commitSoon lets the journal's writer take what is queued.
func (n *node) commitSoon() {
	if n.journalBusy || n.submitted == 0 {
		return
	}
	n.journalBusy = true
	n.after(n.s.commitDelay(), "journal", func() {
		n.s.commits = true
		turns := n.store.Journal().Commit()
		n.s.commits = false
		n.watchFailure()
		n.s.stats.Commits++
		took := core.Tick(n.s.disk.TakeLatency()) * 1000
		n.after(took, "journal", func() {
			n.journalBusy = false
			for _, t := range turns {
				n.submitted--
				p := n.shards[t.Shard]
				n.via(&n.journalLink[t.Shard], n.s.between(0, 50_000), "persisted", func() {
					p.post(shard.Event{Kind: shard.EventPersisted, Turn: t})
				})
			}
			if len(turns) == 0 && n.submitted > 0 { // the device is full
				n.s.stats.Stalls++
				n.after(50*core.Millisecond, "journal", n.commitSoon)
				return
			}
			n.commitSoon()
		})
	})
}

// commitDelay is the time between a submission and the journal's taking it. Where
// the device is slow, clients give up and come again before their batch is durable.
func (s *Sim) commitDelay() core.Tick {
	if !s.ending && s.chance(s.p.slowCommit) {
		s.stats.SlowCommits++
		return s.between(10*core.Millisecond, 2*core.Second)
	}
	return s.between(0, 150_000)
}

// failureHeardIn is how long a process may go on once its journal has failed: a
// shard takes a turn every 250 ms, and loops and timers may be late.
const failureHeardIn = 400 * core.Millisecond

// watchFailure makes sure that the process ends soon after the device has failed
// it, whoever found that out.
func (n *node) watchFailure() {
	if n.failing || n.store.Journal().Failed() == nil {
		return
	}
	n.failing = true
	n.s.trace("the journal has failed")
	n.after(failureHeardIn, "watch", func() {
		n.s.fail(fmt.Errorf("the journal failed %v ms ago and the process still runs: %w", failureHeardIn/core.Millisecond, n.store.Journal().Failed()))
	})
}

// prepareLater runs the journal's background work for ever.
func (n *node) prepareLater(d core.Tick) {
	n.after(d, "prepare", func() {
		more, err := n.store.Journal().Prepare()
		took := core.Tick(n.s.disk.TakeLatency()) * 1000
		if err != nil {
			n.watchFailure()
			n.s.trace("prepare: %v", err)
			n.s.stats.PrepareErrors++
		}
		next := n.s.between(10*core.Millisecond, 60*core.Millisecond)
		if more {
			next = n.s.between(0, core.Millisecond)
		}
		n.prepareLater(took + next)
	})
}

func (n *node) spaceLater() {
	n.after(core.Second, "space", func() {
		if n.store.CheckSpace() == raftlog.SpaceLow {
			n.s.stats.SpaceLow++
		}
		n.spaceLater()
	})
}

// poolJob is a job that waits for the I/O pool.
type poolJob struct {
	p *shardProc
	j *raftlog.Job
}

const poolWorkers = 3

func (n *node) startJob(p *shardProc, j *raftlog.Job) {
	n.s.stats.Jobs++
	n.jobs = append(n.jobs, &poolJob{p, j})
	n.runJobs()
}

func (n *node) runJobs() {
	for n.jobsRunning < poolWorkers && len(n.jobs) > 0 {
		i := n.nextJob()
		w := n.jobs[i]
		n.jobs = append(n.jobs[:i:i], n.jobs[i+1:]...)
		n.jobsRunning++
		n.after(n.s.between(0, core.Millisecond), "job", func() {
			w.j.Run()
			if w.j.Err != nil {
				n.s.stats.JobErrors++
				n.s.trace("job: %v", w.j.Err)
			}
			took := core.Tick(n.s.disk.TakeLatency()) * 1000
			n.after(took+n.s.between(0, 200_000), "job done", func() {
				n.jobsRunning--
				w.p.post(shard.Event{Kind: shard.EventJobDone, Job: w.j})
				n.runJobs()
			})
		})
	}
}

// nextJob picks one at random, catch-up reads only when nothing else waits.
func (n *node) nextJob() int {
	var urgent []int
	for i, w := range n.jobs {
		if !w.j.CatchUp {
			urgent = append(urgent, i)
		}
	}
	if len(urgent) > 0 {
		return urgent[n.s.rng.IntN(len(urgent))]
	}
	return n.s.rng.IntN(len(n.jobs))
}

// kindsOf names the events of a turn for the trace.
func kindsOf(events []shard.Event) string {
	var b strings.Builder
	for i := range events {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch ev := &events[i]; ev.Kind {
		case shard.EventRequest:
			fmt.Fprintf(&b, "%T", ev.Request)
		case shard.EventPersisted:
			fmt.Fprintf(&b, "persisted %d", ev.Turn.Seq)
		default:
			b.WriteString([...]string{"request", "cancel", "persisted", "job", "timer", "image", "frame", "node", "shutdown"}[ev.Kind])
		}
	}
	return b.String()
}
