//go:build mutants

package mutant

import (
	"fmt"
	"strings"
)

// Built says whether this program has the variants.
const Built = true

// names[m] is what a person calls m.
var names = [count]string{
	None:                  "none",
	AckBeforeSync:         "ack-before-sync",
	SyncRetried:           "sync-retried",
	NoReplayChecksum:      "no-replay-checksum",
	TornTailAccepted:      "torn-tail-accepted",
	ReplayStopsEarly:      "replay-stops-early",
	RecycledTakenForNew:   "recycled-taken-for-new",
	ReadBackNotDurable:    "read-back-not-durable",
	PinReleasedEarly:      "pin-released-early",
	JournalReadUnverified: "journal-read-unverified",
	RewriteUnverified:     "rewrite-unverified",
	RewriteSplit:          "rewrite-split",
	DirectAckedEarly:      "direct-acked-early",
	DirectWriteUnheard:    "direct-write-unheard",
	IndexBeforeData:       "index-before-data",
	UnsyncedSegment:       "unsynced-segment",
	FlushWriteUnheard:     "flush-write-unheard",
	RetentionTooEarly:     "retention-too-early",
	SegmentRemovedEarly:   "segment-removed-early",
	LogStartLost:          "log-start-lost",
	HighBeforeCommit:      "high-before-commit",
	ProducerStateLost:     "producer-state-lost",
	RepeatAckedEarly:      "repeat-acked-early",
	OffsetReplyEarly:      "offset-reply-early",
}

var chosen ID

// On says whether variant m was chosen.
func On(m ID) bool { return m == chosen }

// Choose makes the variant of that name the one that is on; "none" for the broker
// as it should be. Nothing else may run meanwhile.
func Choose(name string) error {
	for m, n := range names {
		if n == name {
			chosen = ID(m)
			return nil
		}
	}
	return fmt.Errorf("no mutant %q; there are %s", name, strings.Join(names[:], ", "))
}

// Name is what a person calls m.
func (m ID) Name() string { return names[m] }
