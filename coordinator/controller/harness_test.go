package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

var errInjected = errors.New("injected append failure")

// harness does for one Controller what a shard does: it appends what the
// Controller puts out, replays it at once, and publishes Images.
type harness struct {
	t    testing.TB
	opts Options
	c    *Controller
	now  core.Tick
	term core.Term

	log       []core.Record // log[i] has offset start+i
	start     core.Offset
	bytes     int64
	fail      bool // the next Write that holds records fails
	published *meta.Image
}

// testOptions know two topic configs and any broker config but "read.only".
func testOptions() Options {
	return Options{
		Node: 1, Seed: 7,
		ValidateTopic: func(_, name, value string) error {
			switch name {
			case "retention.ms":
				if _, err := strconv.ParseInt(value, 10, 64); err != nil {
					return fmt.Errorf("Invalid value %s for configuration retention.ms: Not a number of type LONG", value)
				}
			case "cleanup.policy":
			default:
				return fmt.Errorf("Unknown topic config name: %s", name)
			}
			return nil
		},
		ValidateBroker: func(name, value string, clusterWide bool) error {
			if name == "read.only" {
				return errors.New("Cannot update these configs dynamically: [read.only]")
			}
			return nil
		},
		ListDefault: func(broker bool, name string) (string, bool) { return "delete", !broker && name == "cleanup.policy" },
	}
}

func newHarness(t testing.TB, o Options) *harness {
	h := &harness{t: t, opts: o, now: 1_000_000 * core.Second}
	h.restart()
	return h
}

// restart throws the Controller away and makes another one lead, from the log.
func (h *harness) restart() {
	h.c = New(h.opts)
	h.term++
	for i := 0; i < len(h.log); i += 3 {
		h.c.Replay(h.start+core.Offset(i), h.log[i:min(i+3, len(h.log))])
	}
	h.size()
	h.published = nil
	var out core.Output
	h.c.Lead(h.now, h.term, &out)
	if out.Image == nil {
		h.t.Fatal("a leader publishes no Image")
	}
	h.carryOut(&out)
}

func (h *harness) size() { h.c.LogSize(h.start, h.start+core.Offset(len(h.log)), h.bytes) }

func (h *harness) send(body any) *core.Command {
	cmd := &core.Command{Body: body}
	h.now += core.Millisecond
	var out core.Output
	h.c.Handle(h.now, cmd, &out)
	h.carryOut(&out)
	if cmd.Reply == nil && cmd.Err == nil {
		h.t.Fatalf("a %T was not answered", body)
	}
	if a, ok := cmd.Reply.(*meta.Applied); ok && a.Version != h.published.Version {
		h.t.Fatalf("%T: the reply waits for version %d, published is %d", body, a.Version, h.published.Version)
	}
	return cmd
}

func (h *harness) carryOut(out *core.Output) {
	failed := false
	for i := range out.Writes {
		w := &out.Writes[i]
		if h.fail && len(w.Records) > 0 {
			h.fail, failed = false, true
			for _, cmd := range w.Replies {
				cmd.Reply, cmd.Err = nil, errInjected
			}
			h.c.Failed(h.now, w.Cookie, errInjected)
			continue
		}
		if len(w.Records) > 0 {
			base := h.start + core.Offset(len(h.log))
			h.log = append(h.log, w.Records...)
			for _, r := range w.Records {
				h.bytes += int64(recordBytes(r))
			}
			h.bytes += batchOverhead
			h.c.Replay(base, w.Records)
			h.size()
		}
	}
	if out.Image != nil && !failed {
		im := out.Image.(*meta.Image)
		if h.published != nil && im.Version <= h.published.Version {
			h.t.Fatalf("version %d was published after %d", im.Version, h.published.Version)
		}
		if im != h.c.Image() {
			h.t.Fatal("the Image published is not the one that was replayed")
		}
		h.published = im
	}
	if to := out.TrimBelow; to > 0 {
		h.log = slices.Clone(h.log[to-h.start:])
		h.start, h.bytes = to, 0
		for _, r := range h.log {
			h.bytes += int64(recordBytes(r))
		}
		h.size()
	}
}

// timers runs Timer until nothing is due.
func (h *harness) timers() {
	for rounds := 0; ; rounds++ {
		if next := h.c.Deadline(); next == 0 || next > h.now {
			return
		}
		if rounds > 10_000 {
			h.t.Fatal("the Controller wants its timer for ever")
		}
		var out core.Output
		h.c.Timer(h.now, &out)
		h.carryOut(&out)
	}
}

func (h *harness) register(id core.NodeID, rack string) {
	h.send(meta.RegisterBroker{Broker: meta.Broker{ID: id, Host: "host" + strconv.Itoa(int(id)), Port: 9092, Rack: rack}})
}

// create makes a topic and fails the test if it cannot.
func (h *harness) create(name string, partitions int32) *meta.Topic {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1
	req.Topics = append(req.Topics, t)
	a := h.send(req).Reply.(*meta.Applied)
	if r := a.Reply.(*kmsg.CreateTopicsResponse).Topics[0]; r.ErrorCode != 0 {
		h.t.Fatalf("creating %s: %s", name, *r.ErrorMessage)
	}
	return h.published.Topic(name)
}

// describe writes an Image out, without its Version.
func describe(im *meta.Image) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s controller %d topics %d partitions %d\n", im.ClusterID, im.Controller, im.TopicCount(), im.PartitionCount())
	for _, br := range im.Brokers {
		fmt.Fprintf(&b, "broker %d at %s:%d rack=%q configs=%v\n", br.ID, br.Host, br.Port, br.Rack, im.BrokerConfigs[br.ID])
	}
	fmt.Fprintf(&b, "cluster configs %v\n", im.ClusterConfigs)
	for _, e := range im.Quotas.Entities() {
		fmt.Fprintf(&b, "quotas %+v %v\n", e, im.Quotas[e])
	}
	for _, t := range im.Topics() {
		fmt.Fprintf(&b, "topic %s internal=%v configs=%v", t.Name, t.Internal, t.Configs)
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, " %d=#%d%v", p.Num, p.ID, p.Replicas)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// dump describes all that follows from the log, topic IDs included.
func dump(c *Controller) string {
	var b strings.Builder
	fmt.Fprintf(&b, "next %d %d %d\n%s", c.next, c.state.nextPartition, c.state.nextProducer, describe(c.state.image))
	for _, t := range c.state.image.Topics() {
		fmt.Fprintf(&b, "%s %x\n", t.Name, t.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(c.state.image.BrokerConfigs)) {
		fmt.Fprintf(&b, "%d %v\n", id, c.state.image.BrokerConfigs[id])
	}
	return b.String()
}
