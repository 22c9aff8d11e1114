package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
	"millrace/chaos/check"
)

func TestPayloadTellsItsSender(t *testing.T) {
	seen := map[uint64]bool{}
	for seq := range int64(50) {
		k := check.Key{Producer: 7, Seq: seq << 33}
		v := payload(k, 100+int(seq))
		got, err := parse(v)
		if err != nil || got != k {
			t.Fatalf("parse = %v, %v, want %v", got, err, k)
		}
		if seen[sum(v)] {
			t.Fatalf("two records with one checksum")
		}
		seen[sum(v)] = true
	}
	if _, err := parse([]byte("short")); err == nil {
		t.Error("a foreign value was accepted")
	}
}

func TestOutcomeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want check.Outcome
	}{
		{nil, check.Acked},
		{kerr.NotLeaderForPartition, check.Failed},
		{fmt.Errorf("wrapped: %w", kerr.MessageTooLarge), check.Failed},
		{kerr.RequestTimedOut, check.Unknown},
		{kerr.KafkaStorageError, check.Unknown},
		{kerr.NotController, check.Unknown}, // its record may be kept
		{kerr.NotCoordinator, check.Unknown},
		{kerr.CoordinatorNotAvailable, check.Unknown},
		{kerr.LeaderNotAvailable, check.Unknown}, // may stem from metadata
		{kgo.ErrRecordRetries, check.Unknown},
		{context.DeadlineExceeded, check.Unknown},
		{errors.New("EOF"), check.Unknown},
	} {
		if got := outcomeOf(c.err); got != c.want {
			t.Errorf("outcomeOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	if attempt(kerr.TopicAlreadyExists) != check.Failed {
		t.Error("an attempt to create what exists changed nothing, and has failed")
	}
}

func TestConcludeWantsLossWhenToldSo(t *testing.T) {
	b, err := peers.NewMillrace(peers.MillraceOptions{Bin: "/nonexistent", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	lost := violations{{Kind: check.KindDuplicate}, {Kind: check.KindLost}}
	other := violations{{Kind: check.KindDuplicate}}
	for _, c := range []struct {
		expect bool
		err    error
		ok     bool
	}{
		{false, nil, true}, {false, lost, false}, {false, errors.New("did not start"), false},
		{true, fmt.Errorf("epoch 0: %w", lost), true}, {true, other, false}, {true, nil, false},
	} {
		tm := &tormentor{o: options{expectLoss: c.expect}, broker: b}
		if err := conclude(tm, t.TempDir(), c.err); (err == nil) != c.ok {
			t.Errorf("expectLoss %v, run %v: %v", c.expect, c.err, err)
		}
	}
}

func TestRunRefusesUnknownSubcommands(t *testing.T) {
	for _, args := range [][]string{nil, {"earthquake"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("run(%q) = %v", args, err)
		}
	}
}

func TestAReaderOvertakenByRetentionAsksAtTheLogStart(t *testing.T) {
	for _, c := range []struct{ next, logStart, first, want int64 }{
		{220, 0, 220, 220},
		{220, 100, 221, 220},   // a hole
		{220, 364, 364, 364},   // overtaken
		{220, 364, 365, 364},   // overtaken, and a hole behind the log start
		{220, 364, 220, 220},   // read right before the log start moved
		{364, 364, 365, 364},   // a hole at the log start
		{220, 364, 1000, 364},  // a hole, far behind
		{-1, 364, 364, 364},    // no position yet
		{1000, 364, 364, 1000}, // back: another fault
	} {
		if got := askedFor(c.next, c.logStart, c.first); got != c.want {
			t.Errorf("position %d, log start %d, first record %d: asked for %d, want %d", c.next, c.logStart, c.first, got, c.want)
		}
	}
}

// An answer is as old as the last poll that emptied the client's buffer; a poll
// that brings an error of the client's own empties nothing.
func TestAnAnswerIsDatedByTheLastPollThatBroughtOne(t *testing.T) {
	part := func(err error, end int64) kgo.Fetches {
		p := kgo.FetchPartition{Partition: 3, Err: err, HighWatermark: end}
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "t", Partitions: []kgo.FetchPartition{p}}}}}
	}
	f := (&load{}).newFollower("r")
	f.began = 10
	for i, c := range []struct {
		fetches      kgo.Fetches
		begins, ends int64
		invoke       int64 // -1: no answer of the broker
	}{
		{part(nil, 1), 20, 25, 10},
		{kgo.NewErrFetch(errors.New("the group is lost")), 30, 31, -1},
		{part(errors.New("the broker is away"), 0), 40, 41, -1},
		{part(nil, 2), 50, 55, 20},
		{nil, 60, 65, -1},
		{part(nil, 3), 70, 75, 50},
	} {
		polls, err := f.take(c.fetches, c.begins, c.ends)
		switch {
		case err != nil:
			t.Fatal(err)
		case c.invoke < 0:
			if len(polls) > 0 {
				t.Errorf("poll %d: %+v", i, polls[0])
			}
		case len(polls) != 1 || polls[0].Invoke != c.invoke || polls[0].Return != c.ends:
			t.Errorf("poll %d: %+v, want one asked for at %d", i, polls, c.invoke)
		}
	}
}
