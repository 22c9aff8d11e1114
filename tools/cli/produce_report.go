package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// failure explains the first record that was not written. p.mu is held.
func (p *producing) failure(s *session) error {
	var ke *kerr.Error
	var e *Error
	switch err := p.mu.err; {
	case errors.As(err, &ke):
		e = explainCode("record not written to topic \""+p.topic+"\"", ke, "").cause(err)
	case errors.Is(err, kgo.ErrRecordTimeout), errors.Is(err, kgo.ErrRecordRetries):
		e = s.timedOut(err)
		if _, dial := s.dialer.lastFailure(); dial == nil {
			// What a broker answers that is to be tried again is not told by
			// franz-go.
			e.Do = "The broker does not answer, or answers that it cannot take records now, as with a\nfull disk: look into its log and load, or wait longer with --timeout."
		}
		e.What += fmt.Sprintf("; %d of %d records are not acknowledged", p.mu.failed, p.mu.sent)
		e.Do += "\nSome of them may have been written."
	default:
		return err
	}
	if e.Do == "" {
		e.Do = "The broker's log may tell more."
	}
	return e
}

type produced struct {
	Topic      string        `json:"topic"`
	Records    int64         `json:"records"` // acknowledged
	Bytes      int64         `json:"bytes"`   // of keys and values
	Failed     int64         `json:"failed"`
	Seconds    float64       `json:"seconds"`
	Partitions []producedRow `json:"partitions"`
}

// report prints where the records went, unless there was nothing but a failure.
// p.mu is held.
func (p *producing) report(s *session, start time.Time, failed bool) error {
	if p.quiet || p.mu.sent == 0 && failed {
		return nil
	}
	out := produced{Topic: p.topic, Records: p.mu.acked, Bytes: p.mu.bytes, Failed: p.mu.failed,
		Seconds: time.Since(start).Seconds(), Partitions: []producedRow{}}
	for _, n := range sortedKeys(p.mu.byPartition) {
		out.Partitions = append(out.Partitions, *p.mu.byPartition[n])
	}
	return s.print(out, func(t *textOut) {
		verb := "acknowledged"
		if p.acksNone {
			verb = "sent without acknowledgement"
		}
		t.line("%s %s by topic %s", plural(int(out.Records), "record"), verb, p.topic)
		for _, r := range out.Partitions {
			switch {
			case p.acksNone:
				t.line("  partition %d: %s", r.Partition, plural(int(r.Records), "record"))
			case r.First == r.Last:
				t.line("  partition %d: offset %d", r.Partition, r.First)
			default:
				t.line("  partition %d: offsets %d to %d", r.Partition, r.First, r.Last)
			}
		}
	})
}

var errTooLong = errors.New("a record is longer than --max-record-bytes")

// splitter cuts records out of a stream.
type splitter struct {
	r     *bufio.Reader
	delim []byte
	max   int
	raw   bool
	done  bool

	text []byte // the record that next found; the caller's to keep
	err  error
}

func newSplitter(r io.Reader, delim string, max int, raw bool) *splitter {
	return &splitter{r: bufio.NewReaderSize(r, 64<<10), delim: []byte(delim), max: max, raw: raw}
}

// next finds the next record. A last one without delimiter counts unless it is
// empty; a raw input is one record even when it is empty.
func (s *splitter) next() bool {
	if s.done || s.err != nil {
		return false
	}
	if s.raw {
		s.done = true
		s.text, s.err = io.ReadAll(io.LimitReader(s.r, int64(s.max)+1))
		if s.err == nil && len(s.text) > s.max {
			s.err = errTooLong
		}
		return s.err == nil
	}
	var buf []byte
	last := s.delim[len(s.delim)-1]
	for {
		part, err := s.r.ReadSlice(last)
		buf = append(buf, part...)
		if err == nil && bytes.HasSuffix(buf, s.delim) {
			s.text = buf[:len(buf)-len(s.delim)]
			break
		}
		if err != nil && err != bufio.ErrBufferFull {
			s.done = true
			if err != io.EOF {
				s.err = err
				return false
			}
			if len(buf) == 0 {
				return false
			}
			s.text = buf
			break
		}
		if len(buf) > s.max+len(s.delim) {
			s.err = errTooLong
			return false
		}
	}
	if len(s.text) > s.max {
		s.err = errTooLong
		return false
	}
	return true
}

func (s *splitter) advice() string {
	if errors.Is(s.err, errTooLong) {
		return fmt.Sprintf("The limit is %d bytes. Raise it, and the topic's max.message.bytes with it.", s.max)
	}
	return "The records before it were sent."
}
