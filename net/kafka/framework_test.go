package kafka

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
	"millrace/shard"
)

// TestEverySentinelHasACode reads core's sources, so that a new sentinel cannot
// be forgotten here.
func TestEverySentinelHasACode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../core/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	sentinels := 0
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for i, name := range s.(*ast.ValueSpec).Names {
				if !strings.HasPrefix(name.Name, "Err") {
					continue
				}
				sentinels++
				text := s.(*ast.ValueSpec).Values[i].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value
				found := false
				for _, e := range errorCodes {
					if fmt.Sprintf("%q", e.err.Error()) == text {
						found = true
						wrapped := fmt.Errorf("%w: partition 7", e.err)
						if got := ErrorCode(wrapped); got != e.code || got == codeUnknownServerError {
							t.Errorf("%s maps to %d, the table says %d", name.Name, got, e.code)
						}
						if kerr.ErrorForCode(e.code) == nil {
							t.Errorf("%s maps to %d, which is no Kafka code", name.Name, e.code)
						}
					}
				}
				if !found {
					t.Errorf("core.%s has no code", name.Name)
				}
			}
		}
	}
	if sentinels < 20 {
		t.Fatalf("only %d sentinels were found", sentinels)
	}
	if ErrorCode(nil) != 0 || ErrorCode(fmt.Errorf("other")) != codeUnknownServerError {
		t.Error("nil or an unknown error is mapped wrongly")
	}
}

func TestBrokersOwnFaultsAreRetriable(t *testing.T) {
	for _, err := range []error{
		core.ErrNotLeader, core.ErrNoLeader, core.ErrStorageFull, core.ErrStorageFailed, core.ErrOverloaded,
		core.ErrTimedOut, core.ErrShuttingDown, core.ErrCoordinatorLoad, core.ErrNotCoordinator,
	} {
		for _, code := range []int16{ErrorCode(err), CoordinatorErrorCode(err), ControllerErrorCode(err)} {
			if !kerr.IsRetriable(kerr.ErrorForCode(code)) {
				t.Errorf("%v is answered with %v, which clients do not retry", err, kerr.ErrorForCode(code))
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		flexible  bool
		client    string
		rest      string
		err       error
	}{
		{"empty client id", "0000", false, "", "", nil},
		{"null client id", "ffff0102", false, "", "0102", nil},
		{"client id", "000361626305", false, "abc", "05", nil},
		{"not UTF-8", "0002ff41", false, "\uFFFDA", "", nil},
		{"cut client id", "000461", false, "", "", errShortHeader},
		{"no client id", "00", false, "", "", errShortHeader},
		{"negative length", "fffe0102", false, "", "0102", nil},
		{"grows when it is made UTF-8", "7fff" + strings.Repeat("ff41", 16383) + "41", false, strings.Repeat("\uFFFDA", 8191) + "\uFFFD", "", nil},
		{"flexible", "0001610009", true, "a", "09", nil},
		{"flexible with tags", "000161020501aa8001027788ee", true, "a", "ee", nil},
		{"flexible without tags", "000161", true, "", "", errShortHeader},
		{"tag cut", "0001610105", true, "", "", errShortHeader},
		{"tag longer than the request", "000161010505aa", true, "", "", errShortHeader},
		{"endless varint", "000161ffffffffffff", true, "", "", errShortHeader},
		{"many tags", "000161ffffffff0f", true, "", "", errShortHeader},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		var h header
		rest, err := h.parseClientID(b, c.flexible)
		if err != c.err {
			t.Errorf("%s: error %v, want %v", c.name, err, c.err)
		} else if err == nil && (h.clientID != c.client || hex.EncodeToString(rest) != c.rest) {
			t.Errorf("%s: client %q, rest %x", c.name, h.clientID, rest)
		}
	}
}

func TestRequestsThatCannotBeServedCloseTheConnection(t *testing.T) {
	frame := func(key, version int16, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		return append(b, append([]byte{0, 0, 0, 42}, rest...)...)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		says  string
	}{
		{"unknown key", frame(200, 0, 0, 0), "key 200"},
		{"negative key", frame(-1, 0, 0, 0), "key -1"},
		{"inter-broker key", frame(4, 0, 0, 0), "key 4"},
		{"version too high", frame(3, 99, 0, 0, 0), "version 99"},
		{"version too low", frame(1, 3, 0, 0), "version 3"},
		{"header cut", frame(3, 1, 0), "cut short"},
		{"body cut", frame(3, 1, 0, 0, 0), "Metadata"},
		{"huge array", frame(3, 1, 0, 0, 0x7f, 0xff, 0xff, 0xff), "Metadata"},
		{"produce version 2", frame(0, 2, 0, 0), "version 2"},
		{"null array", frame(19, 2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0), "null"},
		{"negative array", frame(20, 1, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0), "null"},
		{"null array in a flexible version", frame(19, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "null"},
		{"null array inside", frame(21, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), "null"},
		{"produce with null topics", frame(0, 3, 0, 0, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff), "Produce"},
		{"produce with a null topic", frame(0, 3, 0, 0, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0), "Produce"},
		{"ApiVersions of the future without its header's tags", frame(18, 99, 0, 0), "header"},
		{"produce cut", frame(0, 3, 0, 0, 0xff, 0xff, 0, 1), "Produce"},
		{"produce with a null array", frame(0, 3, 0, 0, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff), "Produce"},
		{"produce to a null topic", frame(0, 3, 0, 0, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0, 0, 0), "Produce"},
		{"long string", frame(3, 9, append([]byte{0, 0, 0, 2, 0x81, 0x80, 0x02}, append(make([]byte, 32768), 0, 0, 0, 0, 0)...)...), "32768 bytes"},
		{"produce to a long topic", frame(0, 9, append([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0x81, 0x80, 0x02}, make([]byte, 32800)...)...), "Produce"},
		{"produce with a huge array", frame(0, 3, 0, 0, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff), "Produce"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.serve(c.frame)
			f.loop.run()
			if !strings.Contains(f.conn.closed, c.says) {
				t.Errorf("closed with %q, want %q in it", f.conn.closed, c.says)
			}
			if len(f.conn.replies) > 0 {
				t.Errorf("replied %x", f.conn.replies)
			}
		})
	}
}

func TestTooManyElementsCloseTheConnection(t *testing.T) {
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = make([]string, elementsMax+1)
	offsets := kmsg.NewPtrOffsetFetchRequest()
	nested := kmsg.NewOffsetFetchRequestGroup()
	nested.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Partitions: make([]int32, elementsMax/2)}, {Partitions: make([]int32, elementsMax/2)}}
	offsets.Groups = append(offsets.Groups, nested)
	for _, c := range []struct {
		req     kmsg.Request
		version int16
	}{{groups, 5}, {offsets, 8}} {
		f := newFixture(t)
		f.serve(frameBytes(c.req, c.version))
		f.loop.run()
		if !strings.Contains(f.conn.closed, "elements") {
			t.Errorf("%T: closed with %q", c.req, f.conn.closed)
		}
	}
	groups.Groups = make([]string, elementsMax)
	f := newFixture(t)
	if n := len(f.ask(groups, 5).(*kmsg.DescribeGroupsResponse).Groups); n != mentionsMax {
		t.Errorf("%d are answered", n)
	}
}

// TestNegativeLengthsAreNull holds the header and Produce to what Kafka's reader
// does with lengths below -1 where null is allowed.
func TestNegativeLengthsAreNull(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool { return true }
	b := frameBytes(produceRequest("t", 1, producePartition{0, testBatch(2, "ab")}), 3)
	copy(b[14:], []byte{0x80, 0}) // of the transactional id
	place := f.serve(b)
	f.loop.run()
	if _, ok := f.conn.replies[place]; !ok {
		t.Errorf("no reply, closed: %q", f.conn.closed)
	}
}

// TestLongAnswersStayWhole gives the answer's texts something long to quote, also
// what grows when it is quoted.
func TestLongAnswersStayWhole(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, strings.Repeat("\u00e4", 16380)
	req.Resources = append(req.Resources, r)
	resp := f.ask(req, 1).(*kmsg.DescribeConfigsResponse)
	if text := *resp.Resources[0].ErrorMessage; len(text) > textBytesMax || len(text) < textBytesMax-4 || !utf8.ValidString(text) {
		t.Errorf("a text of %d bytes", len(text))
	}

	b := newTestbed(t)
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = append(alter.Resources, kmsg.NewIncrementalAlterConfigsRequestResource())
	unprintable := strings.Repeat("\x01", textBytesMax/4)
	alter.Resources[0].ResourceName = unprintable
	altered := b.do(alter, 0, coordinate(t, func(_ core.PartitionID, cmd *core.Command) error {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ErrorCode, out.ErrorMessage = codeInvalidConfig, kmsg.StringPtr(fmt.Sprintf("value %q is not a number", unprintable))
		resp.Resources = append(resp.Resources, out)
		cmd.Reply = &meta.Applied{Reply: resp, Version: 1}
		return nil
	})).(*kmsg.IncrementalAlterConfigsResponse)
	if text := *altered.Resources[0].ErrorMessage; len(text) != textBytesMax {
		t.Errorf("a text of %d bytes", len(text))
	}
}

// Lists that may be null are read as null, and what kmsg writes in another way
// than it was sent is no reason to refuse it.
func TestNullsThatAreAllowedAreAccepted(t *testing.T) {
	for _, c := range []struct {
		name string
		req  kmsg.Request
		v    int16
		body []byte
	}{
		{"null topics", kmsg.NewPtrMetadataRequest(), 1, []byte{0xff, 0xff, 0xff, 0xff}},
		{"negative topics", kmsg.NewPtrMetadataRequest(), 1, []byte{0x80, 0, 0, 0}},
		{"null topics, flexible", kmsg.NewPtrMetadataRequest(), 9, []byte{0, 0, 0, 0, 0}},
		{"long varint", kmsg.NewPtrMetadataRequest(), 9, []byte{0x81, 0, 0, 0, 0, 0}},
	} {
		f := newFixture(t)
		b := binary.BigEndian.AppendUint16(nil, uint16(c.req.Key()))
		b = append(binary.BigEndian.AppendUint16(b, uint16(c.v)), 0, 0, 0, 42, 0xff, 0xff)
		c.req.SetVersion(c.v)
		if c.req.IsFlexible() {
			b = append(b, 0)
		}
		place := f.serve(append(b, c.body...))
		f.response(place, c.req)
	}
}

func TestTrailingBytesAreAccepted(t *testing.T) {
	f := newFixture(t)
	req := kmsg.NewPtrMetadataRequest()
	place := f.serve(append(frameBytes(req, 1), 9, 9, 9))
	f.response(place, req)
}

func TestApiVersions(t *testing.T) {
	for v := int16(0); v <= 5; v++ {
		f := newFixture(t)
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "kgo", "v1.2.3"
		resp := f.ask(req, v).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(apis()) {
			t.Fatalf("version %d: error %d, %d keys", v, resp.ErrorCode, len(resp.ApiKeys))
		}
		for i, k := range resp.ApiKeys {
			if i > 0 && k.ApiKey <= resp.ApiKeys[i-1].ApiKey {
				t.Errorf("key %d after %d", k.ApiKey, resp.ApiKeys[i-1].ApiKey)
			}
			if a := f.server.table.find(k.ApiKey); a == nil || a.min != k.MinVersion || a.max != k.MaxVersion {
				t.Errorf("key %d is advertised with [%d, %d]", k.ApiKey, k.MinVersion, k.MaxVersion)
			}
		}
		if v >= 3 && f.conn.info.Client.SoftwareName != "kgo" {
			t.Errorf("version %d: software %q is noted", v, f.conn.info.Client.SoftwareName)
		}
	}
}

func TestApiVersionsOfTheFutureIsAnsweredInVersion0(t *testing.T) {
	for _, v := range []int16{6, 99, -1, 32767} {
		f := newFixture(t)
		b := binary.BigEndian.AppendUint16(nil, 18)
		b = binary.BigEndian.AppendUint16(b, uint16(v))
		place := f.serve(append(b, 0, 0, 0, 42, 0xff, 0xff, 0))
		resp := f.response(place, kmsg.NewPtrApiVersionsRequest()).(*kmsg.ApiVersionsResponse)
		if resp.ErrorCode != codeUnsupportedVersion || len(resp.ApiKeys) != 1 || resp.ApiKeys[0].ApiKey != 18 || resp.ApiKeys[0].MaxVersion != 5 {
			t.Errorf("version %d is answered with %+v", v, resp)
		}
	}
}

func TestApiVersionsChecksItsFields(t *testing.T) {
	mine := "cluster-of-tests"
	for _, c := range []struct {
		name, software, version string
		cluster                 *string
		node                    int32
		want                    int16
	}{
		{"good", "a", "1", nil, -1, 0},
		{"good with cluster", "a", "1", &mine, 1, 0},
		{"no name", "", "1", nil, -1, codeInvalidRequest},
		{"bad name", "-a", "1", nil, -1, codeInvalidRequest},
		{"bad version", "a", "1 ", nil, -1, codeInvalidRequest},
		{"cluster alone", "a", "1", &mine, -1, codeInvalidRequest},
		{"node alone", "a", "1", nil, 1, codeInvalidRequest},
		{"other node", "a", "1", &mine, 2, codeRebootstrapRequired},
		{"other cluster", "a", "1", new(string), 1, codeRebootstrapRequired},
	} {
		f := newFixture(t)
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion, req.ClusterID, req.NodeID = c.software, c.version, c.cluster, c.node
		if got := f.ask(req, 5).(*kmsg.ApiVersionsResponse).ErrorCode; got != c.want {
			t.Errorf("%s: error %d, want %d", c.name, got, c.want)
		}
	}
}

func TestGatherCountsExactly(t *testing.T) {
	calls := 0
	one := Gather(3, func() { calls++ })
	one()
	one()
	if calls != 0 {
		t.Fatal("done before the last answer")
	}
	one()
	Gather(0, func() { calls++ })
	if calls != 2 {
		t.Fatalf("%d calls", calls)
	}
	defer func() {
		if recover() == nil {
			t.Error("an answer too many passes")
		}
	}()
	one()
}

func TestASecondReplyIsABug(t *testing.T) {
	f := newFixture(t)
	r := &Request{w: f.worker, conn: f.conn, api: f.server.table.find(18), received: f.loop.now}
	r.ReplyNothing()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r.ReplyNothing()
}
