package main

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// prefixToken stands for the prefix that a run gives to all names of a sequence.
// Both have the same length, so that they are swapped in encoded bytes.
const prefixToken = "zzPREFIXz"

// Topic is a topic that exists before the first step.
type Topic struct {
	Name       string // with prefixToken
	Partitions int32
	Configs    map[string]string
}

// Sequence is what is sent to both brokers: data only, made from Seed by
// generate, cut down by shrink.
type Sequence struct {
	Seed   uint64
	Theme  string
	Topics []Topic
	Steps  []Step
	// Names and Groups are those that steps may create (with prefixToken), for
	// the clean-up.
	Names, Groups []string
}

// Step is one request.
type Step struct {
	// ID is the place in the generated sequence; placeholders name it.
	ID int
	// Conn is the connection, [0, connsMax). Its client id is "c" and the number.
	Conn int
	// Client is the client id, "" for that of the connection. Members of groups
	// have their own, by which their ids are told apart.
	Client string
	Req    kmsg.Request
	// Later sends the request without waiting for its answer, which is collected
	// before the next request on this connection.
	Later bool
	// Mutations change the encoded frame.
	Mutations []Mutation
}

// connsMax bounds the connections of one sequence to one broker.
const connsMax = 4

// clone copies a sequence deeply enough for shrink to change the copy.
func (s *Sequence) clone() *Sequence {
	c := *s
	c.Topics = slices.Clone(s.Topics)
	c.Steps = slices.Clone(s.Steps)
	for i := range c.Steps {
		c.Steps[i].Mutations = slices.Clone(s.Steps[i].Mutations)
		c.Steps[i].Req = copyRequest(s.Steps[i].Req)
	}
	return &c
}

// noAnswer says whether the protocol has no response to the step (acks=0).
func (st *Step) noAnswer() bool {
	p, ok := st.Req.(*kmsg.ProduceRequest)
	return ok && p.Acks == 0
}

// group is the group that the step asks to be changed, "" for none.
func (st *Step) group() string {
	switch r := st.Req.(type) {
	case *kmsg.JoinGroupRequest:
		return r.Group
	case *kmsg.SyncGroupRequest:
		return r.Group
	}
	return ""
}
