package kafka

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/core"
)

// Latency buckets: bucket i counts requests that took up to LatencyBoundsUs[i]
// microseconds, from the arrival of the frame to the reply. A request that waits
// by design (Fetch, JoinGroup, SyncGroup) counts with its wait.
var LatencyBoundsUs = [...]int64{100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 5_000_000}

// errorCodesMax bounds the codes that are counted one by one; those of Kafka 4.4
// are below it.
const errorCodesMax = 160

// apiStats are the counters of one API on one loop: written by that loop, read
// by metrics.
type apiStats struct {
	sumUs   atomic.Uint64
	latency [len(LatencyBoundsUs) + 1]atomic.Uint64
	errors  [errorCodesMax]atomic.Uint64 // by code, UNKNOWN_SERVER_ERROR at 0
}

func (a *apiStats) observe(took core.Tick) {
	us := max(int64(took)/1000, 0)
	i := 0
	for i < len(LatencyBoundsUs) && us > LatencyBoundsUs[i] {
		i++
	}
	a.latency[i].Add(1)
	a.sumUs.Add(uint64(us))
}

// Failed counts an error code of the answer, be it of the request as a whole or of
// a part. Reply does so for the responses that kmsg encodes; a handler that
// encodes by itself calls it for each code.
func (r *Request) Failed(code int16) {
	if code == codeNone {
		return
	}
	if code < 0 || code >= errorCodesMax {
		code = 0
	}
	r.w.stats[r.api.row].errors[code].Add(1)
}

// APIStats is what the requests of one API came to, over all loops.
type APIStats struct {
	API string
	// Latency has one count more than LatencyBoundsUs: those above all bounds.
	Latency []uint64
	SumUs   uint64
	// Errors counts the error codes in the answers by name: a request for several
	// partitions may be answered with several. With acks=0, where there is no
	// answer, it counts what the answer would have said.
	Errors map[string]uint64
}

// Stats sums up the requests since the start, in the order of the table. Any
// goroutine.
func (s *Server) Stats() []APIStats {
	s.mu.Lock()
	workers := s.mu.workers
	s.mu.Unlock()
	out := make([]APIStats, len(s.table.rows))
	for row := range s.table.rows {
		o := &out[row]
		o.API = s.table.rows[row].key.Name()
		o.Latency = make([]uint64, len(LatencyBoundsUs)+1)
		for _, w := range workers {
			a := &w.stats[row]
			o.SumUs += a.sumUs.Load()
			for i := range a.latency {
				o.Latency[i] += a.latency[i].Load()
			}
			for code := range a.errors {
				if n := a.errors[code].Load(); n > 0 {
					if o.Errors == nil {
						o.Errors = make(map[string]uint64)
					}
					o.Errors[errorName(int16(code))] += n
				}
			}
		}
	}
	return out
}

func errorName(code int16) string {
	if code == 0 {
		code = codeUnknownServerError
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return kerr.UnknownServerError.Message
}

// Parked is what the fetches that wait keep in memory, its bound, and how many were
// answered at once because of it. Any goroutine.
func (s *Server) Parked() (bytes, most int64, unparked uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.mu.workers {
		bytes += w.parked.Load()
		unparked += w.unparked.Load()
	}
	return bytes, s.opts.ParkedBytesMax, unparked
}

// FetchSessionStats are the fetch sessions of the node.
type FetchSessionStats struct {
	Sessions        int64
	Bytes, BytesMax int64
	Lost            uint64 // not given, or ended, for want of room
}

// FetchSessions counts them. Any goroutine.
func (s *Server) FetchSessions() FetchSessionStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := FetchSessionStats{BytesMax: s.opts.FetchSessionBytesMax}
	for _, w := range s.mu.workers {
		out.Sessions += w.sessions.count.Load()
		out.Bytes += w.sessions.bytes.Load()
		out.Lost += w.sessions.lost.Load()
	}
	return out
}

// Refused are the requests that closed their connection: malformed ones, and
// those of keys and versions that are not served. Any goroutine.
func (s *Server) Refused() (malformed, unsupported uint64) {
	return s.stats.malformed.Load(), s.stats.unsupported.Load()
}
