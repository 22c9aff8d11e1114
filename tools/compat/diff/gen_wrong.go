package main

import (
	"math"
	"reflect"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// disturb goes over the finished steps and changes some: fields to values at
// their borders, or the bytes of the frame.
func (g *gen) disturb() {
	for i := range g.q.Steps {
		st := &g.q.Steps[i]
		if st.Later || len(st.Mutations) > 0 {
			continue
		}
		percent := 10
		if g.q.Theme == "mixed" {
			percent = 22
		}
		if g.chance(percent) {
			g.tweak(st)
			continue
		}
		if g.chance(percent / 2) {
			g.mutilate(st)
		}
	}
}

// untouched are fields that a border value would make reach other sequences, or
// wait for long.
func untouched(st *Step, field string) bool {
	switch st.Req.(type) {
	case *kmsg.AlterConfigsRequest, *kmsg.IncrementalAlterConfigsRequest:
		if field == "ResourceType" || field == "ResourceName" || field == "Op" {
			return true
		}
	case *kmsg.UnregisterBrokerRequest:
		return field == "BrokerID" // 1 is the broker itself
	case *kmsg.AlterClientQuotasRequest:
		return field == "Name" || field == "ValidateOnly" // quotas that are not the sequence's own
	case *kmsg.OffsetCommitRequest:
		return field == "Group" // the group "" would be shared by sequences
	}
	switch field {
	case "MaxWaitMillis", "TimeoutMillis", "RebalanceTimeoutMillis": // the answer would be a matter of time
		return true
	case "ReplicaDirectoryID", "HighWatermark", "ReplicaState", "Epoch": // tags that old versions do not know
		return st.Req.GetVersion() < 18
	case "ID": // of ReplicaState
		return st.Req.GetVersion() < 15
	}
	return false
}

// tweak sets one field of a request to a value at a border.
func (g *gen) tweak(st *Step) {
	var all []place
	for _, p := range places(st.Req) {
		if !untouched(st, p.field) && p.v.Kind() != reflect.Struct && p.field != "Records" {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return
	}
	p := all[g.r.IntN(len(all))]
	switch {
	case p.v.Kind() == reflect.Slice:
		g.tweakSlice(p.v)
	case p.v.Kind() == reflect.String:
		p.v.SetString(g.text(p.field))
	case p.v.Kind() == reflect.Bool:
		p.v.SetBool(!p.v.Bool())
	case p.v.CanInt():
		bits := p.v.Type().Bits()
		hi := int64(math.MaxInt64) >> (64 - bits)
		p.v.SetInt(oneOf(g, -1, 0, 1, -2, p.v.Int()+1, p.v.Int()-1, hi, -hi-1))
	case p.v.Type() == reflect.TypeFor[*string]():
		s := g.text(p.field)
		p.v.Set(reflect.ValueOf(mostly(g, 60, &s, nil)))
	case p.v.Type() == reflect.TypeFor[[16]byte]():
		p.v.Set(reflect.ValueOf(oneOf(g, [16]byte{}, [16]byte{0xFF, 1})))
	case p.v.Kind() == reflect.Pointer:
		p.v.SetZero()
	}
}

// text is a string that cannot be the name of something that other sequences
// have.
func (g *gen) text(field string) string {
	if strings.HasPrefix(field, "Topic") && g.chance(15) {
		return oneOf(g, ".", "..")
	}
	return oneOf(g, "", prefixToken+"-zz", prefixToken+"/bad", prefixToken+" b", prefixToken+"ü", prefixToken+longName)
}

func (g *gen) tweakSlice(v reflect.Value) {
	n := v.Len()
	switch g.r.IntN(4) {
	case 0:
		v.SetZero()
	case 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case 2:
		if n > 0 { // the same twice
			v.Set(reflect.Append(v, deepCopy(v.Index(g.r.IntN(n)))))
		}
	default:
		if n > 1 {
			v.Set(v.Slice(0, n-1))
		}
	}
}

// mutilate changes the bytes of a request.
func (g *gen) mutilate(st *Step) {
	switch n := g.r.IntN(100); {
	case n < 50:
		g.wrongLength(st)
	case n < 60:
		st.Mutations = append(st.Mutations, Mutation{Kind: cutBody, Value: 1 + g.r.Int64N(12)})
	case n < 68:
		st.Mutations = append(st.Mutations, Mutation{Kind: appendBody, Value: 1 + g.r.Int64N(6)})
	case n < 75:
		st.Mutations = append(st.Mutations, Mutation{Kind: bodyTag})
	case n < 81:
		st.Mutations = append(st.Mutations, Mutation{Kind: headerTag})
	case n < 86:
		st.Mutations = append(st.Mutations, Mutation{Kind: headerFlip})
	case n < 95:
		st.Mutations = append(st.Mutations, Mutation{Kind: clientID, Value: g.r.Int64N(6) - 1})
	default:
		g.strange(st)
	}
}

func (g *gen) wrongLength(st *Step) {
	var all []place
	for _, p := range places(st.Req) {
		if untouched(st, p.field) {
			continue // a name of length -1 is the default of all names
		}
		isText := p.v.Kind() == reflect.String || p.v.Type() == reflect.TypeFor[*string]()
		if p.path == "ClusterID" && st.Req.Key() == int16(kmsg.Fetch) {
			continue // a tagged field, whose section has a length too
		}
		if isText || p.v.Kind() == reflect.Slice {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return
	}
	p := all[g.r.IntN(len(all))]
	m := Mutation{Kind: lengthIs, Path: p.path, Value: oneOf[int64](g, -1, -1, -1, -2, 1<<30, math.MaxInt32, math.MinInt32)}
	if p.v.Kind() == reflect.String || p.v.Kind() == reflect.Pointer {
		m.Value = oneOf[int64](g, -1, -1, -2, 32767, -32768)
	}
	if st.Req.IsFlexible() && m.Value < -1 { // has no compact form
		m.Value = -1
	}
	st.Mutations = append(st.Mutations, m)
}

// strangeFrame is a frame that is wrong as a whole.
func (g *gen) strangeFrame() {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "lib", "1"
	g.strange(g.add(req))
}

func (g *gen) strange(st *Step) {
	v := g.advertised[st.Req.Key()]
	switch g.r.IntN(5) {
	case 0:
		st.Mutations = append(st.Mutations, Mutation{Kind: versionIs, Value: oneOf(g, int64(v.max)+1, int64(v.max)+1, 100, math.MaxInt16, -1, math.MinInt16)})
	case 1:
		st.Mutations = append(st.Mutations, Mutation{Kind: keyIs, Value: oneOf[int64](g, -1, 95, 1000, math.MaxInt16, math.MinInt16)})
	case 2:
		st.Mutations = append(st.Mutations, Mutation{Kind: frameLength, Value: oneOf[int64](g, -1, math.MaxInt32, math.MinInt32, 200<<20)})
	case 3:
		st.Mutations = append(st.Mutations, Mutation{Kind: shortFrame, Value: g.r.Int64N(14)})
	default:
		st.Mutations = append(st.Mutations, Mutation{Kind: cutBody, Value: 1 + g.r.Int64N(40)})
	}
}
