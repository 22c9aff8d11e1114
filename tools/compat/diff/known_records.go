package main

import (
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchesOf lists the batches that a Produce request has, as far as they can be
// told apart; whole is false where bytes are left over.
func batchesOf(records []byte) (all []kmsg.RecordBatch, whole bool) {
	for len(records) > 0 {
		var rb kmsg.RecordBatch
		if len(records) < batchHeaderLen {
			return all, false
		}
		err := rb.ReadFrom(records)
		end := int64(rb.Length) + 12
		if err != nil || end < batchHeaderLen || end > int64(len(records)) {
			return all, false
		}
		all = append(all, rb)
		records = records[end:]
	}
	return all, true
}

// anyBatch says whether a partition of a Produce has records of this kind.
func anyBatch(c *knownCase, is func(all []kmsg.RecordBatch, whole bool, raw []byte) bool) bool {
	for _, t := range c.step.Req.(*kmsg.ProduceRequest).Topics {
		for _, p := range t.Partitions {
			if all, whole := batchesOf(p.Records); is(all, whole, p.Records) {
				return true
			}
		}
	}
	return false
}

// hasBatch is anyBatch for one batch.
func hasBatch(c *knownCase, is func(rb *kmsg.RecordBatch) bool) bool {
	return anyBatch(c, func(all []kmsg.RecordBatch, _ bool, _ []byte) bool {
		for i := range all {
			if is(&all[i]) {
				return true
			}
		}
		return false
	})
}

// otherFormat says of a partition's records that they are not one batch of magic 2.
func otherFormat(all []kmsg.RecordBatch, whole bool, raw []byte) bool {
	unknown := len(raw) > batchMagicAt && int8(raw[batchMagicAt]) != 2
	return unknown || !whole || len(all) > 1
}

// unanswered is for what a Produce without acks may be: nothing tells what became of
// it.
func unanswered(is func(st *Step) bool) func(*Step, outcome) bool {
	return func(st *Step, _ outcome) bool { return st.noAnswer() && is(st) }
}

func ofTransaction(st *Step) bool {
	r := st.Req.(*kmsg.ProduceRequest)
	return r.TransactionID != nil || hasBatch(&knownCase{step: st}, func(rb *kmsg.RecordBatch) bool { return rb.Attributes&0x10 != 0 })
}

func negativeEpoch(st *Step) bool {
	return hasBatch(&knownCase{step: st}, func(rb *kmsg.RecordBatch) bool { return rb.ProducerID != -1 && rb.ProducerEpoch < 0 })
}

func knownOfRecords() []known {
	produce := []kmsg.Key{kmsg.Produce}
	return []known{
		{
			name: "Produce: transactions", keys: produce, diverges: true,
			when:    func(c *knownCase) bool { return ofTransaction(c.step) },
			quiet:   unanswered(ofTransaction),
			because: "Produce with a transactional id, and a batch marked transactional",
		},
		{
			name: "Produce: another format, and bytes behind the batch", keys: produce,
			when: func(c *knownCase) bool { return anyBatch(c, otherFormat) }, diverges: true,
			quiet:   unanswered(func(st *Step) bool { return anyBatch(&knownCase{step: st}, otherFormat) }),
			because: "Bytes after the one batch of a partition, another format than 2",
		},
		{
			name: "Produce: which compressed records are to blame", keys: produce, field: "Topics.Partitions.ErrorRecords",
			when: func(c *knownCase) bool {
				return c.Millrace == absent && hasBatch(c, func(rb *kmsg.RecordBatch) bool { return rb.Attributes&7 != 0 })
			},
			because: "nothing that is produced is ever decompressed",
		},
		{
			name: "Produce: null records", keys: produce,
			when: func(c *knownCase) bool { return producesNull(c.step) }, diverges: true,
			quiet:   unanswered(producesNull),
			because: "Null records answer INVALID_RECORD",
		},
		{
			name: "Produce: codecs that do not exist", keys: produce,
			when: func(c *knownCase) bool {
				return hasBatch(c, func(rb *kmsg.RecordBatch) bool { return rb.Attributes&7 > 4 })
			},
			because: "The codecs 5 to 7",
		},
		{
			name: "Produce: a producer id with a negative epoch", keys: produce, diverges: true,
			when:    func(c *knownCase) bool { return negativeEpoch(c.step) },
			quiet:   unanswered(negativeEpoch),
			because: "epoch with a producer id, which Kafka takes",
		},
		{
			name: "Produce: records that do not agree with the header", keys: produce, diverges: true,
			when: func(c *knownCase) bool {
				return hasBatch(c, wrongInside)
			},
			quiet:   tookWrongInside,
			because: "Not checked, be the batch compressed or not",
		},
		{
			name: "Produce: a record from before the batch's first", keys: produce, diverges: true,
			when: func(c *knownCase) bool {
				tooEarly := slices.ContainsFunc(c.all, func(d Difference) bool {
					return d.pattern() == "Topics.Partitions.ErrorCode" && d.Kafka == "32" && d.Millrace == "0"
				})
				return tooEarly && hasBatch(c, earlierInside)
			},
			quiet:   unanswered(func(st *Step) bool { return hasBatch(&knownCase{step: st}, earlierInside) }),
			because: "that each record's own timestamp is within what the header",
		},
		{
			name: "ListOffsets and Fetch: an isolation level that does not exist", keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets},
			when: func(c *knownCase) bool {
				switch r := c.step.Req.(type) {
				case *kmsg.FetchRequest:
					return r.IsolationLevel < 0 || r.IsolationLevel > 1
				case *kmsg.ListOffsetsRequest:
					return r.GetVersion() >= 2 && (r.IsolationLevel < 0 || r.IsolationLevel > 1)
				}
				return false
			},
			because: "an unknown isolation level as",
		},
		{
			name: "ListOffsets: the largest timestamp is of deleted records", keys: []kmsg.Key{kmsg.ListOffsets},
			when: func(c *knownCase) bool {
				r, ok := c.step.Req.(*kmsg.ListOffsetsRequest)
				removed := c.Millrace == "-1" && deletedTo(c.before) > 0 || namesDeleted(c)
				return ok && removed && slices.ContainsFunc(r.Topics, func(t kmsg.ListOffsetsRequestTopic) bool {
					return slices.ContainsFunc(t.Partitions, func(p kmsg.ListOffsetsRequestTopicPartition) bool { return p.Timestamp == -3 })
				})
			},
			because: "The largest timestamp (ListOffsets -3) is that of records that can be read",
		},
		{
			name: "Fetch: a segment that ends by its records' timestamps", keys: []kmsg.Key{kmsg.Fetch}, field: "Topics.Partitions.RecordBatches",
			when: func(c *knownCase) bool {
				return len(c.Kafka) > 2 && len(c.Millrace) > len(c.Kafka) && strings.HasPrefix(c.Millrace, c.Kafka) && withinLimits(c)
			},
			because: "A Fetch, which ends where a segment does, may so return more than Kafka's",
		},
		{
			name: "Fetch with a negative limit", keys: []kmsg.Key{kmsg.Fetch}, diverges: true,
			when:    func(c *knownCase) bool { return negativeLimit(c.step.Req) },
			quiet:   func(st *Step, _ outcome) bool { return negativeLimit(st.Req) },
			because: "A negative `max_bytes` is taken as the smallest",
		},
		{
			name: "Fetch and ListOffsets with a replica id", keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets},
			when:     func(c *knownCase) bool { return asReplica(c.step.Req) },
			quiet:    func(st *Step, _ outcome) bool { return asReplica(st.Req) },
			diverges: true,
			because:  "a fetch with a replica id is served as a consumer's",
		},
	}
}

func negativeLimit(req kmsg.Request) bool {
	r := req.(*kmsg.FetchRequest)
	return r.MaxBytes < 0 || slices.ContainsFunc(r.Topics, func(t kmsg.FetchRequestTopic) bool {
		return slices.ContainsFunc(t.Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.PartitionMaxBytes < 0 })
	})
}

// deletedTo is the largest offset that a DeleteRecords among the steps names.
func deletedTo(steps []Step) (to int64) {
	for _, st := range steps {
		r, ok := st.Req.(*kmsg.DeleteRecordsRequest)
		if !ok {
			continue
		}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if p.Offset == -1 { // all there are
					return math.MaxInt64
				}
				to = max(to, p.Offset)
			}
		}
	}
	return to
}

// namesDeleted says whether Kafka's answer names an offset that may be deleted, where
// Millrace's names a later one.
func namesDeleted(c *knownCase) bool {
	kafka, ok := c.outs[0].resp.(*kmsg.ListOffsetsResponse)
	millrace, ok2 := c.outs[1].resp.(*kmsg.ListOffsetsResponse)
	if !ok || !ok2 || len(kafka.Topics) != len(millrace.Topics) {
		return false
	}
	to := deletedTo(c.before)
	for i := range kafka.Topics {
		a, b := kafka.Topics[i].Partitions, millrace.Topics[i].Partitions
		for k := range min(len(a), len(b)) {
			if a[k].Offset >= 0 && a[k].Offset < to && b[k].Offset > a[k].Offset {
				return true
			}
		}
	}
	return false
}

// withinLimits says whether Millrace's answer to a Fetch has no more bytes than were
// asked for. The request names topics by placeholders, so of the limits of partitions
// the largest counts; where it names none, they are its session's, unknown here.
func withinLimits(c *knownCase) bool {
	req, ok := c.step.Req.(*kmsg.FetchRequest)
	resp, answered := c.outs[1].resp.(*kmsg.FetchResponse)
	if !ok || !answered {
		return false
	}
	each := int32(-1)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			each = max(each, p.PartitionMaxBytes)
		}
	}
	total := 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			total += len(p.RecordBatches)
			if each >= 0 && len(p.RecordBatches) > int(each) {
				return false
			}
		}
	}
	return req.Version < 3 || total <= int(req.MaxBytes)
}

// asReplica says whether a request comes from a replica.
func asReplica(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return r.Version < 15 && r.ReplicaID != -1 || r.Version >= 15 && r.ReplicaState.ID != -1
	case *kmsg.ListOffsetsRequest:
		return r.ReplicaID != -1
	}
	return false
}

// tookWrongInside says whether records were taken that Kafka writes anew, since
// they do not agree with the header.
func tookWrongInside(st *Step, _ outcome) bool {
	return hasBatch(&knownCase{step: st}, wrongInside)
}

// producesNull says whether records of a Produce are null, or made so by a mutation.
func producesNull(st *Step) bool {
	null := anyBatch(&knownCase{step: st}, func(_ []kmsg.RecordBatch, _ bool, raw []byte) bool { return raw == nil })
	return null || slices.ContainsFunc(st.Mutations, func(m Mutation) bool {
		p, ok := find(st.Req, m.Path)
		return ok && m.Kind == lengthIs && p.field == "Records" && m.Value < 0
	})
}
