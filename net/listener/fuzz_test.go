package listener

import (
	"bytes"

	"millrace/net/kafka"
)

// collector keeps the frames it is given and answers them with nothing.
type collector struct{ frames [][]byte }

func (h *collector) Serve(c kafka.Conn, f kafka.Frame) {
	h.frames = append(h.frames, bytes.Clone(f.Bytes))
	f.Buf.Release()
	c.Reply(f.Place, kafka.Reply{})
}

// stillTransport is a socket that nothing happens on.
type stillTransport struct{}

func (stillTransport) written() int64 { return 0 }

func (stillTransport) atHand(int) bool { return false }

func (stillTransport) flush()  {}
func (stillTransport) pause()  {}
func (stillTransport) resume() {}
func (stillTransport) close()  {}

// chunk is a source of bytes at hand.
type chunk struct{ b []byte }

func (c *chunk) Read(p []byte) (int, error) {
	n := copy(p, c.b)
	c.b = c.b[n:]
	return n, nil
}
