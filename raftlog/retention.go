package raftlog

import (
	"millrace/core"
	"millrace/core/mutant"
)

// RetentionStart is the log start that the retention settings ask for at now;
// ok is false when nothing should move. It never passes limit (the high
// watermark). Whole segments only, as Kafka does it: by size, the oldest go as
// long as at least RetentionBytes stay; by time, a segment goes when its largest
// timestamp is RetentionMs old, and the active one too: it is then rolled.
func (l *Log) RetentionStart(now core.Tick, limit core.Offset) (start core.Offset, ok bool) {
	if !l.cfg.Delete || l.damaged != nil {
		return 0, false
	}
	start = l.logStart
	total := l.SizeBytes()
	for i := range l.segs {
		g := &l.segs[i]
		active := i == len(l.segs)-1
		tooOld := l.cfg.RetentionMs >= 0 && g.maxTs >= 0 && now.Millis()-g.maxTs > l.cfg.RetentionMs
		tooMuch := l.cfg.RetentionBytes >= 0 && !active && total-g.bytes >= l.cfg.RetentionBytes
		if g.nextOffset > limit || !tooOld && !tooMuch {
			break
		}
		if active {
			l.rollNext = true
		}
		if !mutant.On(mutant.RetentionTooEarly) {
			total -= g.bytes
		}
		start = max(start, g.nextOffset)
	}
	return start, start > l.logStart
}
