package listener

import (
	"cmp"
	"fmt"
	"slices"

	"millrace/core"
)

// Replies hold payload memory until the client has read them. While that memory
// is short, a client must go on reading: one that has read nothing for unreadGrace
// loses its connection. Those that stand still longest go first, and of each loop
// at a time no more than give back half of a shard's memory. Clients that
// ask for much and read nothing would keep everyone from history otherwise.
const (
	unreadCheck = core.Second
	unreadGrace = 2 * core.Second
	unreadShare = 2
)

// replyBytes are the replies of a loop that lie in the heap and that their clients
// have not taken. Beyond max a connection that has some is not read, and clients
// that take nothing lose theirs; beyond twice that they do so soon.
type replyBytes struct {
	bytes, max int64
	soon       bool // a look is due
}

func (r *replyBytes) full() bool { return r.bytes > r.max }

// unreadSoonAfter is when clients are looked at once there are too many replies,
// and how long one may stand still when there are twice as many.
const unreadSoonAfter = 200 * core.Millisecond

// unreadSoon looks at the clients before watchUnread does.
func (l *Loop) unreadSoon() {
	if l.replies.soon {
		return
	}
	l.replies.soon = true
	l.After(l.now+unreadSoonAfter, func() {
		l.replies.soon = false
		if l.replies.full() {
			l.dropUnread()
			l.unreadSoon()
		}
	})
}

// watchUnread asks every loop to drop such clients when this loop's shard, or its
// connections, found no payload memory since the last look.
func (l *Loop) watchUnread() {
	l.After(l.now+unreadCheck, func() {
		if l.memoryWasShort() {
			for _, o := range l.srv.loops {
				if o != l {
					o.force(message{kind: msgFunc, fn: o.dropUnread})
				}
			}
			l.dropUnread()
		}
		l.watchUnread()
	})
}

func (l *Loop) memoryWasShort() bool {
	short := l.waiting.refused
	l.waiting.refused = false
	if l.shardStats != nil {
		if n := l.shardStats().ReadsStarved; n != l.waiting.starved {
			l.waiting.starved, short = n, true
		}
	}
	return short
}

// dropUnread closes the connections whose replies have stood still.
func (l *Loop) dropUnread() {
	var still []*session
	grace, why := unreadGrace, "payload memory was short (memory.payload.bytes)"
	if l.replies.full() {
		why = "too many replies were not read (queued.max.reply.bytes)"
	}
	if l.replies.bytes > 2*l.replies.max {
		grace = unreadSoonAfter
	}
	for s := range l.sessions {
		if n := s.transport.written(); n != s.written {
			s.written, s.unreadSince = n, l.now
		}
		if !s.closing && len(s.out) > 0 && l.now-s.unreadSince >= grace {
			still = append(still, s)
		}
	}
	slices.SortFunc(still, func(a, b *session) int { return cmp.Compare(a.unreadSince, b.unreadSince) })
	freed := int64(0)
	for _, s := range still {
		if freed >= l.arena.LimitBytes()/unreadShare {
			return
		}
		freed += s.outBytes
		l.stats.unread.Add(1)
		s.Close(fmt.Sprintf("%d bytes of replies were not read for %d ms, while %s", s.outBytes, (l.now-s.unreadSince)/core.Millisecond, why))
	}
}
