package main

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frame is a request as a client sends it.
func frame(t *testing.T, req kmsg.Request, version int16, id int32) []byte {
	t.Helper()
	req.SetVersion(version)
	b := kmsg.NewRequestFormatter().AppendRequest(nil, req, id)
	return b
}

// server answers every request with make's answer and counts whole ones.
func server(t *testing.T, answer func(key int16) kmsg.Response) (addr string, whole chan int16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	whole = make(chan int16, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					f, err := readFrame(c)
					if err != nil {
						return
					}
					key := int16(binary.BigEndian.Uint16(f[4:]))
					whole <- key
					resp := answer(key)
					resp.SetVersion(int16(binary.BigEndian.Uint16(f[6:])))
					b := append([]byte{0, 0, 0, 0}, f[8:12]...)
					if resp.IsFlexible() {
						b = append(b, 0)
					}
					b = resp.AppendTo(b)
					binary.BigEndian.PutUint32(b, uint32(len(b)-4))
					if _, err := c.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), whole
}

// dial connects to the proxy.
func dial(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ask(c net.Conn, b []byte) ([]byte, error) {
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	return readFrame(c)
}

func TestProxyNamesItselfAndCuts(t *testing.T) {
	addr, whole := server(t, func(key int16) kmsg.Response {
		if key != int16(kmsg.Metadata) {
			return kmsg.NewPtrProduceResponse()
		}
		m := kmsg.NewPtrMetadataResponse()
		b := kmsg.NewMetadataResponseBroker()
		b.Host, b.Port = "elsewhere", 1
		m.Brokers = append(m.Brokers, b)
		return m
	})
	p, err := newProxy(addr, produceCuts(map[int]cut{2: cutAnswer, 3: cutRequest}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, version := range []int16{1, 12} {
		c := dial(t, p)
		f, err := ask(c, frame(t, kmsg.NewPtrMetadataRequest(), version, 7))
		if err != nil {
			t.Fatal(err)
		}
		m := kmsg.NewPtrMetadataResponse()
		m.SetVersion(version)
		head := 8
		if m.IsFlexible() {
			head = 9
		}
		if err := m.ReadFrom(f[head:]); err != nil || m.Brokers[0].Host != p.host || m.Brokers[0].Port != p.port {
			t.Errorf("version %d: %v, %+v", version, err, m.Brokers)
		}
		<-whole
	}
	produce := frame(t, kmsg.NewPtrProduceRequest(), 9, 8)
	c := dial(t, p)
	if _, err := ask(c, produce); err != nil {
		t.Errorf("the first request was cut: %v", err)
	}
	if _, err := ask(c, produce); err == nil {
		t.Error("the second request was answered")
	}
	if _, err := ask(dial(t, p), produce); err == nil {
		t.Error("the third request was answered")
	}
	if n := len(whole); n != 2 {
		t.Errorf("the broker got %d whole requests, want the first two", n)
	}
	if cuts, produces := p.counts(); cuts != 2 || produces != 3 || p.err() != nil {
		t.Errorf("%d cuts in %d requests, %v", cuts, produces, p.err())
	}
}

// TestProxyCutsAnswersWithRecords counts those alone, and passes on what is half of
// one.
func TestProxyCutsAnswersWithRecords(t *testing.T) {
	records := false
	addr, whole := server(t, func(int16) kmsg.Response {
		r := kmsg.NewPtrFetchResponse()
		topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		if topic.Topic = "a-topic-of-some-length"; records {
			part.RecordBatches = make([]byte, 1000)
		}
		topic.Partitions = append(topic.Partitions, part)
		r.Topics = append(r.Topics, topic)
		return r
	})
	p, err := newProxy(addr, fetchCuts(map[int]cut{2: cutHalf, 3: cutAnswer}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	fetch := frame(t, kmsg.NewPtrFetchRequest(), 11, 8)
	c := dial(t, p)
	for _, records = range []bool{false, true, false} {
		if _, err := ask(c, fetch); err != nil {
			t.Fatalf("records %v: the answer was cut: %v", records, err)
		}
	}
	records = true
	for _, least := range []int{500, 0} {
		c := dial(t, p)
		if _, err := c.Write(fetch); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || len(got) < least || least == 0 && len(got) > 0 || len(got) > 600 {
			t.Errorf("%d bytes of the answer came, %v, want %d or little more", len(got), err, least)
		}
	}
	if n := len(whole); n != 5 {
		t.Errorf("the broker got %d requests, want all 5", n)
	}
	if cuts, answers := p.counts(); cuts != 2 || answers != 3 || p.err() != nil {
		t.Errorf("%d cuts in %d answers with records, %v", cuts, answers, p.err())
	}
}
