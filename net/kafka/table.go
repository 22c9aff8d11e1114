package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one row of the table of API keys: the versions served and advertised.
type api struct {
	key      kmsg.Key
	min, max int16
	// serve decides and replies, now or in a later continuation. Without raw,
	// Request.Body holds the decoded request.
	serve func(r *Request)
	// raw is set where the handler decodes Request.Payload itself.
	raw bool

	row          int   // place in the table
	flexibleFrom int16 // lowest flexible version; max+1 if there is none
}

// apis lists every API that a client may call. A key is listed here only when
// it works: clients switch features on by what is advertised.
func apis() []api {
	rows := append(dataAPIs(), controlAPIs()...)
	slices.SortFunc(rows, func(a, b api) int { return int(a.key) - int(b.key) })
	return rows
}

// apiTable finds an API by key.
type apiTable struct {
	rows  []api
	byKey []*api
}

func newTable(rows []api) apiTable {
	t := apiTable{rows: rows}
	for i := range rows {
		a := &rows[i]
		a.row = i
		a.flexibleFrom = a.max + 1
		for v := a.max; v >= a.min; v-- {
			req := kmsg.RequestForKey(int16(a.key))
			req.SetVersion(v)
			if !req.IsFlexible() {
				break
			}
			a.flexibleFrom = v
		}
		for len(t.byKey) <= int(a.key) {
			t.byKey = append(t.byKey, nil)
		}
		if t.byKey[a.key] != nil {
			panic("BUG: API key " + a.key.Name() + " is listed twice")
		}
		t.byKey[a.key] = a
	}
	return t
}

func (t *apiTable) find(key int16) *api {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}
