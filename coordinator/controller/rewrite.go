package controller

import (
	"millrace/core"
)

const (
	rewriteBytesMin   = 1 << 20 // a log below this is never rewritten
	rewriteRatio      = 4       // log bytes per live byte at which it is
	rewriteBatchBytes = 256 << 10
	recordOverhead    = 12 // lengths and deltas around one record of a batch
	batchOverhead     = core.BatchHeaderBytes
	// rewriteRetry is when a rewrite that failed is begun anew: what there was no room
	// for a moment ago has none now.
	rewriteRetry = 100 * core.Millisecond
)

// rewrite keeps the log short: once the log holds much more than what is live,
// all live records are appended again, in several Writes, and then everything
// before the first of them is given up. It may stop anywhere: the records are
// ordinary ones that say what is so at the time they are appended, and the log
// start moves only after the last of them.
type rewrite struct {
	counted  int64 // bytes of records seen since the last rewrite began
	reported int64 // LogSize
	checkAt  int64 // counted at which the live size is looked at again

	running bool
	begin   core.Offset
	next    core.Tick
	owed    int64        // what counted was
	pending []liveRecord // what is still to be written
}

// liveRecord writes one thing that is live, or nothing if it no longer is.
type liveRecord func(*state) []core.Record

func (w *rewrite) reset() { *w = rewrite{checkAt: rewriteBytesMin} }

// failed gives an unfinished rewrite up for a while.
func (w *rewrite) failed(now core.Tick) {
	if w.running {
		w.next = now + rewriteRetry
	}
	w.stop()
}

// stop gives an unfinished rewrite up; the log is as long as before, and more.
func (w *rewrite) stop() {
	if w.running {
		w.counted += w.owed
	}
	w.running, w.pending = false, nil
}

func recordBytes(r core.Record) int { return len(r.Key) + len(r.Value) + recordOverhead }

func (w *rewrite) count(records []core.Record) {
	w.counted += batchOverhead
	for _, r := range records {
		w.counted += int64(recordBytes(r))
	}
}

// due says whether the log is worth looking at. Both figures must agree: the
// log is cut in whole segments, so its size lags behind.
func (w *rewrite) due() bool { return min(w.counted, w.reported) > w.checkAt }

// LogSize tells how much the log holds.
func (c *Controller) LogSize(_, _ core.Offset, bytes int64) { c.rewrite.reported = bytes }

// Deadline asks for Timer at once while a rewrite is due or under way.
func (c *Controller) Deadline() core.Tick {
	if c.leading && (c.rewrite.running || c.rewrite.due()) {
		return max(c.rewrite.next, 1)
	}
	return 0
}

// Timer rewrites the next batch of live records.
func (c *Controller) Timer(now core.Tick, out *core.Output) {
	w := &c.rewrite
	if !c.leading || now < w.next {
		return
	}
	if !w.running {
		if !w.due() || !c.beginRewrite() {
			return
		}
	}
	if len(w.pending) == 0 {
		w.running = false
		out.TrimBelow = w.begin
		return
	}
	w.next = now
	ch := c.begin()
	for len(w.pending) > 0 && ch.bytes < rewriteBatchBytes {
		for _, r := range w.pending[0](&c.state) {
			ch.put(r)
		}
		w.pending = w.pending[1:]
	}
	c.finish(ch, nil, nil, out)
}

// beginRewrite measures the live records and lists them as they are now; what
// has gone by the time its turn comes is left out.
func (c *Controller) beginRewrite() bool {
	w := &c.rewrite
	items := c.liveRecords()
	live := int64(0)
	for _, item := range items {
		for _, r := range item(&c.state) {
			live += int64(recordBytes(r))
		}
	}
	if w.counted <= rewriteRatio*live {
		w.checkAt = rewriteRatio * live
		return false
	}
	w.running, w.begin, w.pending, w.owed = true, c.next, items, w.counted
	w.counted, w.checkAt = 0, max(rewriteBytesMin, rewriteRatio*live)
	return true
}

// liveRecords lists all that is live, as functions of the state at the time
// that it is written.
func (c *Controller) liveRecords() []liveRecord {
	im := c.state.image
	items := []liveRecord{func(s *state) []core.Record {
		out := []core.Record{encodeCounters(s.nextPartition, s.nextProducer), encodeCluster(s.image.ClusterID), encodeController(s.image.Controller)}
		if m := s.image.ClusterConfigs; len(m) > 0 {
			out = append(out, encodeConfigs(resourceCluster, nil, m))
		}
		for _, b := range s.image.Brokers {
			out = append(out, encodeBroker(b))
		}
		return out
	}}
	for _, id := range sortedKeys(im.BrokerConfigs) {
		items = append(items, func(s *state) []core.Record {
			if m := s.image.BrokerConfigs[id]; len(m) > 0 {
				return []core.Record{encodeConfigs(resourceBroker, nodeBytes(id), m)}
			}
			return nil
		})
	}
	for _, e := range im.Quotas.Entities() {
		items = append(items, func(s *state) []core.Record {
			if m := s.image.Quotas[e]; len(m) > 0 {
				return []core.Record{encodeQuotas(e, m)}
			}
			return nil
		})
	}
	for _, t := range im.Topics() {
		items = append(items, func(s *state) []core.Record {
			now := s.image.TopicByID(t.ID)
			switch {
			case now == nil:
				return nil
			case len(now.Configs) > 0:
				return []core.Record{encodeTopic(now), encodeConfigs(resourceTopic, now.ID[:], now.Configs)}
			default:
				return []core.Record{encodeTopic(now)}
			}
		})
	}
	return items
}
