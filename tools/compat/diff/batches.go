package main

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchesText describes fetched batches field by field. What is cut off at the
// end is left out: a fetch may end anywhere (see known.go for where).
func (s *side) batchesText(b []byte) string {
	if len(b) == 0 {
		return "no records"
	}
	var out strings.Builder
	for len(b) >= batchHeaderLen {
		var rb kmsg.RecordBatch
		if err := rb.ReadFrom(b); err != nil {
			break
		}
		size := int(rb.Length) + 12
		if size > len(b) || size < batchHeaderLen {
			break
		}
		h := fnv.New64a()
		h.Write(rb.Records)
		fmt.Fprintf(&out, "{offset %d+%d epoch %s magic %d attributes %#x times %s to %s producer %s/%d/%d records %d in %d bytes %x, checksum %v}",
			rb.FirstOffset, rb.LastOffsetDelta, s.epochText(rb.PartitionLeaderEpoch), rb.Magic, rb.Attributes,
			timeText(rb.FirstTimestamp), timeText(rb.MaxTimestamp), s.producerIDs.known(rb.ProducerID), rb.ProducerEpoch, rb.FirstSequence,
			rb.NumRecords, len(rb.Records), h.Sum64()&0xffffff, uint32(rb.CRC) == castagnoli(b[batchAttrsAt:size]))
		b = b[size:]
	}
	if out.Len() == 0 {
		return "no records"
	}
	return out.String()
}
