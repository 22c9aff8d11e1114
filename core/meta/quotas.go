package meta

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Kinds of things that client quotas are set for (KIP-55, KIP-612), in the order
// in which they are listed.
const (
	QuotaUser = iota
	QuotaClientID
	QuotaIP
	quotaKinds
)

// QuotaKindNames are the kinds as requests name them.
var QuotaKindNames = [quotaKinds]string{"user", "client-id", "ip"}

// QuotaMatch is one part of a QuotaEntity: a name, or the default of its kind.
type QuotaMatch struct {
	Used bool // false: the entity is not of this kind; the rest is zero
	Name string
	// Default stands for all names without quotas of their own; Name is empty.
	Default bool
}

// QuotaEntity is what quotas are set for: a part for each of its kinds.
type QuotaEntity [quotaKinds]QuotaMatch

// Quotas are the client quotas of a cluster: values by key ("producer_byte_rate")
// for each entity. It is never changed once it is part of an Image.
type Quotas map[QuotaEntity]map[string]float64

// PutQuotas replaces the values of one entity; none removes it.
func (e *Edit) PutQuotas(of QuotaEntity, values map[string]float64) {
	if !e.ownQuotas {
		e.ownQuotas = true
		if e.Image.Quotas = maps.Clone(e.Image.Quotas); e.Image.Quotas == nil {
			e.Image.Quotas = Quotas{}
		}
	}
	if len(values) == 0 {
		delete(e.Image.Quotas, of)
	} else {
		e.Image.Quotas[of] = values
	}
}

// Entities lists the entities in a fixed order.
func (q Quotas) Entities() []QuotaEntity {
	return slices.SortedFunc(maps.Keys(q), func(a, b QuotaEntity) int {
		for k := range a {
			if c := a[k].compare(b[k]); c != 0 {
				return c
			}
		}
		return 0
	})
}

func (m QuotaMatch) compare(o QuotaMatch) int {
	rank := func(m QuotaMatch) int {
		switch {
		case !m.Used:
			return 0
		case m.Default:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(m), rank(o)), strings.Compare(m.Name, o.Name))
}
