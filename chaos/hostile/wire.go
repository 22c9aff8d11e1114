package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// correlation is the correlation id of every request.
const correlation = 0x01020304

// What can become of a connection that sends one request.
const (
	closedText   = "closed"
	noAnswerText = "no answer"
)

// answered is the text for an answer with these error codes.
func answered(codes string) string { return "answer " + codes }

// request is a frame with what is needed to read its answer.
type request struct {
	frame []byte // with its length
	resp  kmsg.Response
	// key and version of an answer that is not read further
	flexible bool
}

// encode makes the frame of a request as a client would.
func encode(req kmsg.Request, version int16) request {
	req.SetVersion(version)
	return rawRequest(req, version, req.AppendTo(nil))
}

// rawRequest is the frame of a request with any body.
func rawRequest(kind kmsg.Request, version int16, body []byte) request {
	kind.SetVersion(version)
	resp := kind.ResponseKind()
	resp.SetVersion(version)
	b := header(kind.Key(), version, kind.IsFlexible())
	return request{frame: sized(append(b, body...)), resp: resp, flexible: kind.IsFlexible() && kind.Key() != int16(kmsg.ApiVersions)}
}

// header is a request header of the client "hostile".
func header(key, version int16, flexible bool) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = append(b, 0, 7)
	b = append(b, "hostile"...)
	if flexible {
		b = append(b, 0)
	}
	return b
}

// sized puts the length before a frame.
func sized(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// patched is a frame with bytes written into it from the end.
func (r request) patched(fromEnd int, p ...byte) request {
	r.frame = slices.Clone(r.frame)
	copy(r.frame[len(r.frame)-fromEnd:], p)
	return r
}

// as is a frame of another client.
func (r request) as(client string) request {
	b := slices.Clone(r.frame[4:12])
	b = binary.BigEndian.AppendUint16(b, uint16(len(client)))
	b = append(b, client...)
	r.frame = sized(append(b, r.frame[4+8+2+len("hostile"):]...))
	return r
}

// cut is a frame without its last n bytes and with a length that fits.
func (r request) cut(n int) request {
	r.frame = sized(r.frame[4 : len(r.frame)-n])
	return r
}

// with is a frame with more bytes at its end.
func (r request) with(p ...byte) request {
	r.frame = sized(append(slices.Clone(r.frame[4:]), p...))
	return r
}

func apiVersions(version int16) request {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "hostile", "1"
	return encode(req, version)
}

// conn is one connection of an attacker.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func (e *env) dial(ctx context.Context) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", e.broker.Addr())
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 4096)}, nil
}

// ask sends a request and says what came of it.
func (c *conn) ask(q request, wait time.Duration) string {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return closedText
	}
	if _, err := c.Write(q.frame); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "not taken"
		}
		return closedText
	}
	return c.answer(q, wait)
}

// answer reads one answer and lists its error codes.
func (c *conn) answer(q request, wait time.Duration) string {
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return closedText
	}
	b, err := c.readFrame()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return noAnswerText
	case err != nil:
		return closedText
	case len(b) < 4 || binary.BigEndian.Uint32(b) != correlation:
		return "an answer to something else"
	}
	return describe(b[4:], q)
}

// frameMax bounds an answer.
const frameMax = 256 << 20

func (c *conn) readFrame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 0 || n > frameMax {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// skipFrame reads an answer and keeps nothing of it.
func (c *conn) skipFrame() error {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return err
	}
	_, err := c.r.Discard(int(binary.BigEndian.Uint32(size[:])))
	return err
}

// describe lists the error codes of an answer.
func describe(b []byte, q request) string {
	if q.resp == nil {
		return "answer of some kind"
	}
	if q.flexible && len(b) > 0 {
		b = b[1:]
	}
	if err := q.resp.ReadFrom(b); err != nil {
		return fmt.Sprintf("an answer that does not decode: %v", err)
	}
	var codes []int16
	collect(reflect.ValueOf(q.resp).Elem(), &codes)
	return answered(names(codes))
}

// collect finds the fields called ErrorCode.
func collect(v reflect.Value, codes *[]int16) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				*codes = append(*codes, int16(v.Field(i).Int()))
				continue
			}
			collect(v.Field(i), codes)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				collect(v.Index(i), codes)
			}
		}
	}
}

// names writes codes as names, runs of one as a number of times.
func names(codes []int16) string {
	if len(codes) == 0 {
		return "without codes"
	}
	var out []string
	for i := 0; i < len(codes); {
		n := i
		for n < len(codes) && codes[n] == codes[i] {
			n++
		}
		name := "NONE"
		if err := kerr.TypedErrorForCode(codes[i]); err != nil {
			name = err.Message
		}
		if n-i > 1 {
			name += fmt.Sprintf(" x%d", n-i)
		}
		out = append(out, name)
		i = n
	}
	return strings.Join(out, ", ")
}
