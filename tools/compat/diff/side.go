package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is one of the two that are compared.
type broker struct {
	name      string
	addr      string
	port      int32
	epochBase int32
	clusterID string
	lagging   bool // its broker follows its controller with a delay
}

// side is one broker within the run of one sequence. It is used by one goroutine
// at a time.
type side struct {
	broker
	prefix  string
	control *link // for requests that are not part of the sequence
	links   [connsMax]*link
	corr    int32
	vals    values

	topicIDs    ids[string]
	memberIDs   ids[string]
	producerIDs ids[int64]
	sessionIDs  ids[int32]
}

func (s *side) reset(prefix string) {
	s.prefix = prefix
	s.vals = newValues()
	s.vals.clusterID, s.vals.epochBase = s.clusterID, s.epochBase
	s.topicIDs, s.memberIDs = newIDs[string](), newIDs[string]()
	s.producerIDs, s.sessionIDs = newIDs[int64](), newIDs[int32]()
}

// outcome is what became of a request at one broker.
type outcome struct {
	kind string // "answer", "closed", "none" (no answer in time), "undecodable"
	resp kmsg.Response
	tree node
}

func (o outcome) node() node {
	if o.kind == "answer" {
		return o.tree
	}
	return node{leaf: o.kind}
}

// link returns the connection with this number, dialled when there is none.
func (s *side) link(conn int) (*link, error) {
	if l := s.links[conn]; l != nil && !l.dead {
		return l, nil
	}
	l, err := dial(s.addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	s.links[conn] = l
	return l, nil
}

func (s *side) drop(conn int) {
	if l := s.links[conn]; l != nil {
		l.close()
		s.links[conn] = nil
	}
}

func (s *side) closeAll() {
	for i := range s.links {
		s.drop(i)
	}
	if s.control != nil {
		s.control.close()
		s.control = nil
	}
}

// readAnswer makes an outcome of a frame. It also learns the broker's values.
func (s *side) readAnswer(st *Step, corr int32, frame []byte) outcome {
	frame = bytes.ReplaceAll(frame, []byte(s.prefix), []byte(prefixToken))
	if len(frame) < 4 || int32(binary.BigEndian.Uint32(frame)) != corr {
		return outcome{kind: fmt.Sprintf("another correlation id in an answer of %d bytes", len(frame))}
	}
	resp := st.Req.ResponseKind()
	resp.SetVersion(st.Req.GetVersion())
	body := frame[4:]
	for _, m := range st.Mutations {
		switch {
		case m.Kind == versionIs && st.Req.Key() == int16(kmsg.ApiVersions) && (m.Value < 0 || m.Value > int64(st.Req.MaxVersion())):
			resp.SetVersion(0)
		case m.Kind == versionIs || m.Kind == keyIs:
			return outcome{kind: "answer", tree: node{leaf: fmt.Sprintf("%x", body)}}
		}
	}
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		if len(body) == 0 || body[0] != 0 {
			return outcome{kind: fmt.Sprintf("undecodable: header %x", body[:min(len(body), 8)])}
		}
		body = body[1:]
	}
	if err := readResponse(resp, body); err != nil {
		return outcome{kind: fmt.Sprintf("undecodable: %v in %x", err, body)}
	}
	s.vals.note(st.ID, resp)
	s.nameNew(st, resp)
	return outcome{kind: "answer", resp: resp, tree: s.normalise(resp)}
}

func readResponse(resp kmsg.Response, body []byte) error {
	if err := resp.ReadFrom(body); err != nil {
		// A version 0 body tells of a version that is not known.
		if a, ok := resp.(*kmsg.ApiVersionsResponse); ok {
			a.SetVersion(0)
			return a.ReadFrom(body)
		}
		return err
	}
	return nil
}

// nameNew gives names to ids where they are made.
func (s *side) nameNew(st *Step, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		if r.ProducerID >= 0 && r.ErrorCode == 0 {
			s.producerIDs.name(r.ProducerID, "producer")
		}
	case *kmsg.JoinGroupResponse:
		s.memberText(r.MemberID)
	}
}

// ask sends a request that is not part of the sequence on the control connection
// and returns the answer.
func (s *side) ask(req kmsg.Request, limit time.Duration) (kmsg.Response, error) {
	if s.control == nil || s.control.dead {
		l, err := dial(s.addr)
		if err != nil {
			return nil, err
		}
		s.control = l
	}
	s.corr++
	s.control.send(encodeFrame(&Step{Conn: 0, Req: req}, req, s.corr, s.prefix))
	wait := newPatience(limit)
	defer wait.end()
	select {
	case a := <-s.control.answers:
		if a.err != nil || a.frame == nil {
			s.control.close()
			return nil, fmt.Errorf("%s closed the connection of %s: %w", s.name, kmsg.NameForKey(req.Key()), errors.Join(a.err))
		}
		frame := bytes.ReplaceAll(a.frame, []byte(s.prefix), []byte(prefixToken))
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		body := frame[4:]
		if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
			body = body[1:]
		}
		return resp, resp.ReadFrom(body)
	case <-wait.over:
		s.control.close()
		return nil, fmt.Errorf("%s did not answer %s in %v", s.name, kmsg.NameForKey(req.Key()), limit)
	}
}
