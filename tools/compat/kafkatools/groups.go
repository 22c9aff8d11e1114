package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const groupTool = "consumer.group.ConsumerGroupCommand"

// groupsCell: a group of two members on a topic of two partitions with a hundred
// records each, a second apart, then the same group without members.
func groupsCell(t *trial) {
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	topic, group := t.topic("", 2, 100, base), t.prefix+"-g"
	members := []*kgo.Client{t.member(group, topic), t.member(group, topic)}
	defer func() {
		for _, m := range members {
			m.Close()
		}
	}()
	describe := func(args ...string) result {
		return t.run(groupTool, append([]string{"--describe", "--group", group}, args...)...)
	}
	t.eventually("two members in "+group, func() bool {
		// At first there may be no coordinator yet.
		g, err := t.adm.DescribeGroups(t.ctx, group)
		return err == nil && g[group].State == "Stable" && len(g[group].Members) == 2
	})
	shown := t.table(describe("--members"), "GROUP")
	if len(shown) != 2 || shown[0]["#PARTITIONS"] != "1" || shown[1]["#PARTITIONS"] != "1" {
		t.failf("--members shows %v", shown)
	}
	t.says(describe("--members", "--verbose"), 0, "CURRENT-ASSIGNMENT", topic+":?\\(?0", topic+":?\\(?1")
	t.says(describe("--state"), 0, group+" [\\w.:-]+ \\(1\\) range Stable 2$")
	rows := t.table(describe(), "GROUP")
	if len(rows) != 2 || !strings.HasPrefix(rows[0]["CONSUMER-ID"], "kgo") || rows[0]["LOG-END-OFFSET"] != "100" {
		t.failf("--describe shows %v", rows)
	}
	t.says(t.run(groupTool, "--list", "--state", "stable"), 0, group+" Stable")
	t.says(t.run(groupTool, "--list", "--type", "classic"), 0, group+" Classic")
	t.says(t.run(groupTool, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"), 0,
		"can only be reset if the group '"+group+"' is inactive")
	t.says(t.run(groupTool, "--delete", "--group", group), 0, "The group is not empty")
	t.says(t.run(groupTool, "--delete-offsets", "--group", group, "--topic", topic), 0, "GroupSubscribedToTopic")
	for _, m := range members {
		t.must(m.CommitUncommittedOffsets(t.ctx))
		m.Close()
	}
	members = nil
	t.says(describe("--state"), 0, group+" [\\w.:-]+ \\(1\\) .* ?Empty 0$", "has no active members")
	t.says(t.run(groupTool, "--describe", "--all-groups", "--state", "--verbose"), 0, group+" .*Empty")
	t.says(t.run(groupTool, "--list"), 0, "^"+group+"$")
	resetOffsets(t, group, topic, base)
	deleteGroup(t, group, topic)
}

// member joins a group and consumes; it is closed by the cell.
func (t *trial) member(group, topic string) *kgo.Client {
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.broker), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ClientID("kgo"),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	t.must(err)
	go func() {
		for !cl.PollFetches(t.ctx).IsClientClosed() && t.ctx.Err() == nil {
		}
	}()
	return cl
}

// resetOffsets goes through the forms of --reset-offsets. want is the new offset
// of both partitions, or of each.
func resetOffsets(t *trial, group, topic string, base time.Time) {
	at := func(second int) string {
		return base.Add(time.Duration(second) * time.Second).UTC().Format("2006-01-02T15:04:05.000")
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--topic", topic, "--to-earliest"}, "0:0 1:0"},
		{[]string{"--topic", topic, "--to-latest"}, "0:100 1:100"},
		{[]string{"--topic", topic + ":0", "--to-offset", "7"}, "0:7"},
		{[]string{"--all-topics", "--shift-by", "3"}, "0:10 1:100"},
		{[]string{"--all-topics", "--shift-by", "-50"}, "0:0 1:50"},
		{[]string{"--all-topics", "--to-current"}, "0:0 1:50"},
		{[]string{"--all-topics", "--to-datetime", at(57)}, "0:57 1:57"},
		{[]string{"--all-topics", "--to-datetime", at(56)[:20] + "500Z"}, "0:57 1:57"},
		{[]string{"--all-topics", "--to-datetime", "2000-01-01T00:00:00.000+02:00"}, "0:0 1:0"},
		{[]string{"--all-topics", "--to-datetime", "2100-01-01T00:00:00.000"}, "0:100 1:100"},
		{[]string{"--all-topics", "--by-duration", "PT2H"}, "0:0 1:0"},
		{[]string{"--all-topics", "--by-duration", "PT5M"}, "0:100 1:100"},
		{[]string{"--from-file", t.file("offsets.csv", topic+",0,5\n"+topic+",1,6\n")}, "0:5 1:6"},
		{[]string{"--topic", topic + ":0,1", "--to-offset", "1000"}, "0:100 1:100"},
	} {
		before := t.offsets(group)
		args := append([]string{"--reset-offsets", "--group", group}, c.args...)
		if got := newOffsets(t.table(t.run(groupTool, append(args, "--dry-run")...), "GROUP")); got != c.want {
			t.failf("--dry-run %v shows %q, want %q", c.args, got, c.want)
		}
		if after := t.offsets(group); after != before {
			t.failf("--dry-run %v changed %s to %s", c.args, before, after)
		}
		if got := newOffsets(t.table(t.run(groupTool, append(args, "--execute")...), "GROUP")); got != c.want {
			t.failf("--execute %v shows %q, want %q", c.args, got, c.want)
		}
		if after := " " + t.offsets(group) + " "; !contains(after, c.want) {
			t.failf("after %v the group has%s, want %s", c.args, after, c.want)
		}
	}
	t.says(t.run(groupTool, "--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--export", "--dry-run"), 0,
		"^\"?"+topic+"\"?,0,0$", "^\"?"+topic+"\"?,1,0$")
	t.says(t.run(groupTool, "--reset-offsets", "--all-groups", "--topic", topic, "--to-offset", "3", "--dry-run"), 0, group+" "+topic+" 0 3", group+" "+topic+" 1 3")
	fresh := group + "-new"
	t.says(t.run(groupTool, "--reset-offsets", "--group", fresh, "--topic", topic, "--to-offset", "9", "--execute"), 0, fresh+" "+topic+" 0 9")
	t.says(t.run(groupTool, "--delete", "--group", fresh), 0, "was successful")
}

// contains: every word of want is among the words of text.
func contains(text, want string) bool {
	for w := range strings.FieldsSeq(want) {
		if !strings.Contains(text, " "+w+" ") {
			return false
		}
	}
	return true
}

// newOffsets is "PARTITION:OFFSET ..." of a table of --reset-offsets.
func newOffsets(rows []map[string]string) string {
	var out []string
	for _, r := range rows {
		out = append(out, r["PARTITION"]+":"+r["NEW-OFFSET"])
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// offsets are the committed ones as another client sees them.
func (t *trial) offsets(group string) string {
	r, err := t.adm.FetchOffsets(t.ctx, group)
	t.must(err)
	var out []string
	for _, parts := range r {
		for _, p := range slices.Sorted(maps.Keys(parts)) {
			t.must(parts[p].Err)
			out = append(out, strconv.Itoa(int(p))+":"+strconv.FormatInt(parts[p].At, 10))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func deleteGroup(t *trial, group, topic string) {
	rows := t.table(t.run(groupTool, "--describe", "--group", group, "--offsets", "--verbose"), "GROUP")
	if len(rows) != 2 || rows[0]["CURRENT-OFFSET"] != "100" || rows[0]["LAG"] != "0" {
		t.failf("--describe --offsets shows %v", rows)
	}
	t.says(t.run(groupTool, "--delete-offsets", "--group", group, "--topic", topic+":1"), 0, topic+" 1 Successful")
	if got := t.offsets(group); got != "0:100" {
		t.failf("after --delete-offsets the group has %s", got)
	}
	t.says(t.run(groupTool, "--delete-offsets", "--group", group, "--topic", t.prefix+"-none"), 0, "UnknownTopicOrPartition")
	t.says(t.run(groupTool, "--delete", "--group", group), 0, fmt.Sprintf("Deletion of requested consumer groups \\('%s'\\) was successful", group))
	t.says(t.run(groupTool, "--delete", "--group", group), 0, "Error: Deletion of some consumer groups failed", "GroupIdNotFound")
	t.says(t.run(groupTool, "--describe", "--group", group), 0, "GroupIdNotFoundException")
	t.silentOn(t.run(groupTool, "--list"), "^"+group+"$")
	t.says(t.run(groupTool, "--validate-regex", "a.*"), 0, "is valid")
}
