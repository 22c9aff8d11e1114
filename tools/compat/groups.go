package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	groupPartitions = 6
	perRound        = 60 // records that a group gets at a time
	// A commit waits for the disk, and the heartbeats of its connection wait behind
	// it. So a session outlasts a disk that stands still for some seconds, as that
	// of a busy machine does.
	sessionMs = 15000
)

// join makes driver number i a member of the trial's group.
func (t *trial) join(i int, options string) *driver {
	d := t.driver(i)
	if t.err != nil {
		return nil
	}
	if !strings.Contains(options, "assignor=") {
		options += " assignor=default"
	}
	if !strings.Contains(options, "session=") {
		options += fmt.Sprintf(" session=%d", sessionMs)
	}
	t.do(d, "join group=%s topic=%s %s", t.group, t.topic, strings.TrimSpace(options))
	t.members = append(t.members, d)
	return d
}

// settle waits until the members hold all partitions, each about the same number,
// and the broker says the same of the group. protocol: what it must say of the
// assignor, if not empty.
func (t *trial) settle(partitions int, protocol string, members ...*driver) {
	even := func() bool {
		var all []int
		for _, m := range members {
			has := m.assigned()
			if len(has) < partitions/len(members) || len(has) > (partitions+len(members)-1)/len(members) {
				return false
			}
			all = append(all, has...)
		}
		slices.Sort(all)
		return slices.Equal(all, numbers(0, partitions))
	}
	t.await(40*time.Second, even, func() string {
		var have []string
		for _, m := range members {
			have = append(have, fmt.Sprint(m.assigned()))
		}
		return fmt.Sprintf("%d members share %d partitions (have %s)", len(members), partitions, strings.Join(have, " "))
	})
	said := ""
	t.await(15*time.Second, func() bool {
		g, err := t.s.describeGroup(t.ctx, t.group)
		t.check(err, "describe the group")
		said = fmt.Sprintf("%s, %d members, %q", g.State, len(g.Members), g.Protocol)
		return g.State == "Stable" && len(g.Members) == len(members) && (protocol == "" || g.Protocol == protocol)
	}, func() string {
		return fmt.Sprintf("the broker says of the group: %s; want Stable, %d members, %q", said, len(members), protocol)
	})
}

// exchange produces a round of records and demands that the members that take
// part, and nobody else, hand over each exactly once; then they commit.
func (t *trial) exchange(partitions int, members ...*driver) {
	t.feed(perRound, partitions)
	t.await(30*time.Second, func() bool { return len(t.times()) >= t.fed },
		func() string { return fmt.Sprintf("%d of %d records", len(t.times()), t.fed) })
	for _, m := range members {
		t.do(m, "commit")
	}
	t.exactlyOnce(partitions)
	t.committed(int64(t.fed))
}

// handedOver is all that members have handed over in this trial.
func (t *trial) handedOver() []gotRecord {
	all := slices.Clone(t.past)
	for _, m := range t.members {
		got, err := m.got()
		t.check(err, "consume")
		all = append(all, got...)
	}
	return all
}

// times is how often each record was handed over.
func (t *trial) times() map[int]int {
	seen := map[int]int{}
	for _, r := range t.handedOver() {
		seen[r.number]++
	}
	return seen
}

// exactlyOnce demands each fed record once over all members and the whole trial,
// save for those that may be repeated.
func (t *trial) exactlyOnce(partitions int) {
	for _, r := range t.handedOver() {
		if r.partition != r.number%partitions || r.offset != int64(r.number/partitions) {
			t.fail("record %d came from partition %d offset %d", r.number, r.partition, r.offset)
		}
	}
	seen := t.times()
	for n := range t.fed {
		if repeated := seen[n] == 2 && n >= t.repeatable[0] && n < t.repeatable[1]; seen[n] != 1 && !repeated {
			t.fail("record %d was handed over %d times", n, seen[n])
		}
	}
}

// committed demands that the group's committed offsets add up to want.
func (t *trial) committed(want int64) {
	if t.err != nil {
		return
	}
	sum := int64(-1)
	t.await(20*time.Second, func() bool {
		var err error
		sum, err = t.s.committed(t.ctx, t.group, t.topic)
		t.check(err, "fetch the committed offsets")
		return sum == want
	}, func() string { return fmt.Sprintf("committed offsets add up to %d, want %d", sum, want) })
}

// quit closes a member's consumer.
func (t *trial) quit(d *driver) {
	t.do(d, "leave")
	t.retire(d)
}

// retire keeps what a member has handed over; its driver may join again.
func (t *trial) retire(d *driver) {
	if t.err != nil {
		return
	}
	got, err := d.got()
	t.check(err, "consume")
	t.past = append(t.past, got...)
	t.members = slices.DeleteFunc(t.members, func(m *driver) bool { return m == d })
}

// groupComesAndGoes: three members join one after the other, two leave one after
// the other, and a fourth goes on where the group stood. cooperative: who stays
// must never give up everything.
func groupComesAndGoes(t *trial, assignor string, cooperative bool) {
	t.create(groupPartitions)
	options := "assignor=" + assignor
	one := t.join(0, options)
	t.settle(groupPartitions, assignor, one)
	t.exchange(groupPartitions, one)
	two, three := t.join(1, options), t.join(2, options)
	t.settle(groupPartitions, assignor, one, two, three)
	t.exchange(groupPartitions, one, two, three)
	t.quit(two)
	t.settle(groupPartitions, assignor, one, three)
	t.exchange(groupPartitions, one, three)
	t.quit(three)
	t.settle(groupPartitions, assignor, one)
	t.exchange(groupPartitions, one)
	if t.err == nil && cooperative {
		if _, emptied := one.assignments(); emptied != 0 {
			t.fail("the first member gave up everything %d times", emptied)
		}
	}
	t.quit(one)
	four := t.join(3, options)
	t.settle(groupPartitions, assignor, four)
	t.exchange(groupPartitions, four)
	t.quit(four)
}

// groupCrash: one member stands still for longer than its session and comes back,
// another is killed; the rest take over each time.
func groupCrash(t *trial) {
	t.create(groupPartitions)
	one, two, three := t.join(0, ""), t.join(1, ""), t.join(2, "")
	t.settle(groupPartitions, "", one, two, three)
	t.exchange(groupPartitions, one, two, three)
	t.signal(three, syscall.SIGSTOP)
	t.settle(groupPartitions, "", one, two)
	// The answer to its last fetch may wait in three's socket.
	t.repeatable = [2]int{t.fed, t.fed + perRound}
	t.exchange(groupPartitions, one, two)
	t.signal(three, syscall.SIGCONT)
	t.settle(groupPartitions, "", one, two, three)
	t.exchange(groupPartitions, one, two, three)
	t.kill(1)
	t.settle(groupPartitions, "", one, three)
	t.exchange(groupPartitions, one, three)
	t.quit(one)
	t.quit(three)
}

func (t *trial) signal(d *driver, sig syscall.Signal) {
	if t.err == nil {
		t.check(d.signal(sig), sig.String())
	}
}

// groupStatic: a static member that ends and comes back within its session gets
// its partitions again, and the others notice nothing.
func groupStatic(t *trial) {
	t.create(groupPartitions)
	one := t.join(0, "static=a session=20000")
	t.settle(groupPartitions, "", one) // it leads: a leader that comes back may ask for a rebalance, as franz-go does
	two := t.join(1, "static=b session=20000")
	t.settle(groupPartitions, "", one, two)
	t.exchange(groupPartitions, one, two)
	if t.err != nil {
		return
	}
	held := two.assigned()
	before, _ := one.assignments()
	t.ready(2) // its session would pass while a runtime starts
	for _, turn := range []struct {
		end       func()
		successor int
	}{{func() { t.quit(two) }, 1}, {func() { t.kill(1) }, 2}} {
		turn.end()
		two = t.join(turn.successor, "static=b session=20000")
		t.settle(groupPartitions, "", one, two)
		if t.err == nil && !slices.Equal(two.assigned(), held) {
			t.fail("the static member came back to %v, had %v", two.assigned(), held)
		}
		t.exchange(groupPartitions, one, two)
	}
	if t.err != nil {
		return
	}
	if after, _ := one.assignments(); after != before {
		t.fail("the other member was reassigned %d times", after-before)
	}
	t.quit(two)
	t.quit(one)
}

// groupFenced: a second member with the instance ID of one that lives takes its
// partitions over; the first is told so, and hands over nothing more; the others
// notice nothing.
func groupFenced(t *trial) {
	t.create(groupPartitions)
	t.ready(2)
	one := t.join(0, "static=a session=20000")
	t.settle(groupPartitions, "", one) // it leads, as in groupStatic
	two := t.join(1, "static=b session=20000")
	t.settle(groupPartitions, "", one, two)
	t.exchange(groupPartitions, one, two)
	if t.err != nil {
		return
	}
	held := two.assigned()
	before, _ := one.assignments()
	three := t.join(2, "static=b session=20000")
	t.settle(groupPartitions, "", one, three)
	if t.err == nil && !slices.Equal(three.assigned(), held) {
		t.fail("the second member of that instance has %v, the first had %v", three.assigned(), held)
	}
	t.await(20*time.Second, func() bool { return slices.Contains(two.faults(), fencedInstanceID) },
		func() string {
			return fmt.Sprintf("the first member is told that it is fenced (told %v)", two.faults())
		})
	t.exchange(groupPartitions, one, three)
	if t.err != nil {
		return
	}
	if after, _ := one.assignments(); after != before {
		t.fail("the other member was reassigned %d times", after-before)
	}
	t.kill(1) // how a fenced member can be closed is each client's own matter
	t.quit(three)
	t.quit(one)
}

// commitResume: a member that dies after its commit is followed by one that gets
// what came after the commit, and nothing before.
func commitResume(t *trial) {
	t.create(1)
	one := t.join(0, "")
	t.settle(1, "", one)
	t.exchange(1, one)
	t.feed(perRound, 1)
	t.await(20*time.Second, func() bool { return len(t.times()) >= 2*perRound }, func() string { return "the records after the commit" })
	t.kill(0)
	two := t.join(1, "")
	t.settle(1, "", two)
	t.receives(two, perRound, 2*perRound)
	t.do(two, "commit")
	t.committed(2 * perRound)
	t.quit(two)
}

// resetOffset sets the offset of a group that stands at 50, and looks where the
// group goes on.
func resetOffset(t *trial, to string, want int) {
	at := t.fillTimed()
	if to == "timestamp" {
		to = fmt.Sprintf("timestamp:%d", at)
	}
	d := t.driver(0)
	if t.err != nil {
		return
	}
	// The log starts at 20, so that the start is not offset 0.
	t.check(t.s.trim(t.ctx, t.topic, 20), "delete records")
	t.check(t.s.commit(t.ctx, t.group, t.topic, 50), "commit")
	t.do(d, "reset group=%s topic=%s partition=0 to=%s", t.group, t.topic, to)
	if t.c.resetsBySentinel && to == "start" {
		t.committed(0) // it is below zero
	} else {
		t.committed(int64(want))
	}
	t.fed = 100
	t.feed(10, 1)
	t.do(d, "join group=%s topic=%s assignor=default", t.group, t.topic)
	t.receives(d, want, 110)
	t.quit(d)
}

// deleteGroup: a group with a member is not deleted, without one it is, once.
func deleteGroup(t *trial) {
	t.create(1)
	d := t.join(0, "")
	t.settle(1, "", d)
	t.exchange(1, d)
	t.refused(d, []int{nonEmptyGroup}, "delete-group group=%s", t.group)
	t.quit(d)
	gone := "Empty"
	t.await(10*time.Second, func() bool {
		g, err := t.s.describeGroup(t.ctx, t.group)
		t.check(err, "describe the group")
		gone = g.State
		return gone == "Empty"
	}, func() string { return "the group is " + gone + ", want Empty" })
	t.do(d, "delete-group group=%s", t.group)
	if t.err == nil {
		groups, err := t.s.adm.ListGroups(t.ctx)
		t.check(err, "list groups")
		if _, has := groups[t.group]; has {
			t.fail("the client is content, but the group is listed")
		}
	}
	t.refused(d, []int{groupIDNotFound}, "delete-group group=%s", t.group)
}

// addPartitions: a member that consumes gets the partitions that are added, and
// their first records.
func addPartitions(t *trial) {
	t.create(2)
	d := t.join(0, "")
	t.settle(2, "", d)
	t.exchange(2, d)
	if t.c.cannot["grow"] != "" {
		t.check(t.s.grow(t.ctx, t.topic, 4), "add partitions")
	} else {
		t.do(d, "grow topic=%s partitions=4", t.topic)
	}
	t.settle(4, "", d)
	if t.err != nil {
		return
	}
	rs := records(t.topic, t.fed, t.fed+perRound)
	for i, r := range rs {
		r.Partition = int32(i % 4)
	}
	t.check(t.s.produce(t.ctx, rs), "produce")
	t.await(20*time.Second, func() bool { return len(t.times()) >= 2*perRound },
		func() string {
			return fmt.Sprintf("%d of %d records after the growth", len(t.times())-perRound, perRound)
		})
	t.do(d, "commit")
	t.committed(2 * perRound)
	t.quit(d)
}
