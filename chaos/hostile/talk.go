package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// answerWait is how long an answer may take on a machine that is busy.
	answerWait = 20 * time.Second
	// silence is how long a connection is watched that is to stay open.
	silence = 300 * time.Millisecond
)

// talk sends one request on a connection of its own, and sees whether the
// connection still serves after an answer.
func talk(name string, q request) attack {
	return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
		c, err := e.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		got := c.ask(q, answerWait)
		if got != closedText && got != noAnswerText {
			if after := c.ask(apiVersions(0), answerWait); after != answered("NONE") {
				got += ", then " + after
			}
		}
		return said(got), nil
	}}
}

// bytesThen sends raw bytes and watches for a while what becomes of the connection.
func bytesThen(name string, b []byte, wait time.Duration) attack {
	return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
		c, err := e.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		return said(c.ask(request{frame: b}, wait)), nil
	}}
}

// attacks are all of them, in order: what is said first, then what is too much.
func attacks() []attack {
	var all []attack
	for _, list := range [][]attack{frameAttacks(), versionAttacks(), produceAttacks(), encodingAttacks(), nullAttacks(), textAttacks(), longAttacks(), twiceAttacks()} {
		all = append(all, list...)
	}
	return append(all, loads()...)
}

func length(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// frameAttacks are wrong before a request begins.
func frameAttacks() []attack {
	whole := apiVersions(3)
	list := []attack{
		bytesThen("length 2 GiB", append(length(1<<31-1), make([]byte, 100)...), answerWait),
		bytesThen("length -1", length(1<<32-1), answerWait),
		bytesThen("length -2 GiB", length(1<<31), answerWait),
		bytesThen("length above the limit by one", length(104857601), answerWait),
		bytesThen("length 0", length(0), answerWait),
		bytesThen("length 1", append(length(1), 0), answerWait),
		bytesThen("length 7, a header cut short", append(length(7), 0, 18, 0, 0, 0, 0, 0), answerWait),
		bytesThen("length 8, no client id", append(length(8), 0, 18, 0, 0, 1, 2, 3, 4), answerWait),
		bytesThen("half a length", []byte{0, 0}, silence),
		bytesThen("half a request", whole.frame[:len(whole.frame)/2], silence),
		bytesThen("HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), answerWait),
		bytesThen("TLS to the plaintext port", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, answerWait),
		bytesThen("zeros", make([]byte, 1<<16), answerWait),
	}
	list = append(list, attack{name: "half a request, then the end", do: func(ctx context.Context, e *env) (outcome, error) {
		c, err := e.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		if _, err := c.Write(whole.frame[:9]); err != nil {
			return outcome{}, err
		}
		if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return outcome{}, err
		}
		return said(c.answer(whole, answerWait)), nil
	}})
	list = append(list, attack{name: "a request byte by byte", do: func(ctx context.Context, e *env) (outcome, error) {
		c, err := e.dial(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		for i := range whole.frame {
			if _, err := c.Write(whole.frame[i : i+1]); err != nil {
				return outcome{}, err
			}
			time.Sleep(time.Millisecond)
		}
		return said(c.answer(whole, answerWait)), nil
	}})
	return list
}

// versionAttacks ask for what is not there.
func versionAttacks() []attack {
	raw := func(key, version int16, body ...byte) []byte {
		return sized(append(header(key, version, false), body...))
	}
	list := []attack{
		bytesThen("unknown key 999", raw(999, 0), answerWait),
		bytesThen("unknown key -1", raw(-1, 0), answerWait),
		bytesThen("a removed key (4, LeaderAndIsr)", raw(4, 0), answerWait),
		bytesThen("a key between brokers (52, Vote)", raw(52, 0), answerWait),
	}
	for key, versions := range map[int16][]int16{0: {2, 14, -1}, 1: {3, 19, -1}, 3: {14, -1}, 19: {1, 8}, 11: {10}} {
		for _, v := range versions {
			name := kmsg.NameForKey(key)
			list = append(list, bytesThen(fmt.Sprintf("%s version %d", name, v), raw(key, v, make([]byte, 20)...), answerWait))
		}
	}
	for _, v := range []int16{6, 99, -1} {
		q := apiVersions(3)
		q.resp.SetVersion(0) // the form of an answer to a version that is not known
		binary.BigEndian.PutUint16(q.frame[6:], uint16(v))
		list = append(list, talk(fmt.Sprintf("ApiVersions version %d", v), q))
	}
	badName := kmsg.NewPtrApiVersionsRequest()
	badName.ClientSoftwareName, badName.ClientSoftwareVersion = "no spaces allowed", "1"
	empty := kmsg.NewPtrApiVersionsRequest()
	return append(list,
		talk("ApiVersions of a client with a bad name", encode(badName, 3)),
		talk("ApiVersions of a client without a name", encode(empty, 3)),
		talk("ApiVersions with bytes after its end", apiVersions(3).with(1, 2, 3)),
		talk("ApiVersions cut short", apiVersions(3).cut(2)),
	)
}

// encodingAttacks are counts and lengths that cannot be.
func encodingAttacks() []attack {
	be32 := func(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	metadata := func(name string, v int16, body ...byte) attack {
		return talk(name, rawRequest(kmsg.NewPtrMetadataRequest(), v, body))
	}
	flexibleHeader := func(tags ...byte) request {
		q := apiVersions(3)
		b := header(18, 3, false)
		return request{frame: sized(append(append(b, tags...), 8, 'h', 'o', 's', 't', 'i', 'l', 'e', 2, '1', 0)), resp: q.resp}
	}
	clientID := func(n int16) []byte {
		b := []byte{0, 18, 0, 0, 1, 2, 3, 4}
		return sized(binary.BigEndian.AppendUint16(b, uint16(n)))
	}
	varint := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	long := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}
	list := []attack{
		metadata("Metadata v1, an array of 2^31-1", 1, be32(1<<31-1)...),
		metadata("Metadata v1, an array of -2", 1, be32(-2)...),
		metadata("Metadata v1, an array of -2^31", 1, be32(-1<<31)...),
		metadata("Metadata v1, a string of 32767", 1, append(be32(1), 0x7f, 0xff, 'x')...),
		metadata("Metadata v1, a string of -2", 1, append(be32(1), 0xff, 0xfe)...),
		metadata("Metadata v1, a null name", 1, append(be32(1), 0xff, 0xff)...),
		metadata("Metadata v1, cut short", 1, 0, 0),
		metadata("Metadata v9, an array of 2^32-2", 9, append(varint, 0, 0)...),
		metadata("Metadata v9, a varint that does not end", 9, long...),
		metadata("Metadata v9, a name of 2^31", 9, append([]byte{2}, varint...)...),
		metadata("Metadata v9, a null name", 9, 2, 0, 0, 0, 0, 0, 0),
		metadata("Metadata v9, 2^32-1 tags", 9, append([]byte{1, 0, 0, 0}, varint...)...),
		metadata("Metadata v9, a tag of 2^32-1 bytes", 9, append([]byte{1, 0, 0, 0, 1, 7}, varint...)...),
		metadata("Metadata v9, an unknown tag", 9, 1, 0, 0, 0, 1, 77, 2, 1, 2),
		metadata("Metadata v9, a tag twice", 9, 1, 0, 0, 0, 2, 77, 1, 1, 77, 1, 1),
		metadata("Metadata v9, tags out of order", 9, 1, 0, 0, 0, 2, 78, 1, 1, 77, 1, 1),
		talk("header, an unknown tag", flexibleHeader(1, 99, 1, 5)),
		talk("header, 2^32-1 tags", flexibleHeader(varint...)),
		talk("header, a tag of 2^32-1 bytes", flexibleHeader(append([]byte{1, 5}, varint...)...)),
		bytesThen("header, a client id of -2", clientID(-2), answerWait),
		bytesThen("header, a client id of 32767", clientID(32767), answerWait),
	}
	fetch := kmsg.NewPtrFetchRequest()
	q := encode(fetch, 4)
	list = append(list,
		talk("Fetch v4, an array of 2^31-1", q.patched(4, be32(1<<31-1)...)),
		talk("Fetch v4, an array of -2", q.patched(4, be32(-2)...)),
		talk("Fetch v4, with bytes after its end", q.with(0, 0, 0)),
		talk("Fetch v4, cut short", q.cut(3)))
	return list
}
