package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// trying runs one check and returns how it failed.
func trying(check func(t *trial)) error {
	t := &trial{}
	_, err := t.try(context.Background(), time.Minute, cell{"x", check})
	return err
}

func TestSaysWantsStatusAndEveryPattern(t *testing.T) {
	r := result{tool: "Tool", args: []string{"--bootstrap-server", "b", "--list"}, exit: 1, out: "Topic:  a\tLeader: 1\n",
		err: "exit 1\nDriver$Ended: exit 1\n\n"}
	for _, c := range []struct {
		exit     int
		patterns []string
		want     string // of the failure; empty: none
	}{
		{1, []string{"^Topic: a Leader: 1$"}, ""},
		{0, nil, "Tool --list ended with 1, want 0"},
		{1, []string{"Topic", "Leader: 2"}, `Tool --list does not say "Leader: 2"`},
	} {
		err := trying(func(t *trial) { t.says(r, c.exit, c.patterns...) })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %v: %v, want %q", c.exit, c.patterns, err, c.want)
		}
	}
	if err := trying(func(t *trial) { t.silentOn(r, "Leader: \\d") }); err == nil {
		t.Error("silentOn let a match pass")
	}
	if err := trying(func(t *trial) { t.silentOn(r, "exit") }); err != nil {
		t.Errorf("what Kafka prints of the driver's end of a tool is not the tool's: %v", err)
	}
}

func TestTableIsReadByColumn(t *testing.T) {
	r := result{out: "\nConsumer group 'g' has no members.\n\nGROUP  TOPIC PARTITION\ng      t     0\ng      t     1\n\nGROUP  other\n"}
	var got string
	if err := trying(func(t *trial) { got = fmt.Sprint(t.table(r, "GROUP")) }); err != nil {
		t.Fatal(err)
	}
	if want := "[map[GROUP:g PARTITION:0 TOPIC:t] map[GROUP:g PARTITION:1 TOPIC:t]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := trying(func(t *trial) { t.table(r, "TOPIC") }); err == nil {
		t.Error("a table that is not there was read")
	}
}

func TestWordsAreWhole(t *testing.T) {
	if !contains(" 0:5 1:60 ", "1:60 0:5") || contains(" 0:5 1:60 ", "1:6") {
		t.Error("contains compares pieces of words")
	}
}

func TestABugInACellIsNotARedCell(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic of another kind was swallowed")
		}
	}()
	_ = trying(func(*trial) { panic("BUG") })
}
