package config

import (
	"fmt"
	"iter"
	"strings"
)

var (
	brokerByName = index(brokerSettings)
	topicByName  = index(topicSettings)
)

func index(table []Setting) map[string]*Setting {
	m := make(map[string]*Setting, len(table))
	for i := range table {
		s := &table[i]
		if m[s.Name] != nil {
			panic("BUG: setting " + s.Name + " is in the table twice")
		}
		m[s.Name] = s
	}
	return m
}

// All yields the table of one scope in order.
func All(scope Scope) iter.Seq[*Setting] {
	table := brokerSettings
	if scope == Topic {
		table = topicSettings
	}
	return func(yield func(*Setting) bool) {
		for i := range table {
			if !yield(&table[i]) {
				return
			}
		}
	}
}

func init() {
	for i := range topicSettings {
		topicSettings[i].Scope, topicSettings[i].Dynamic = Topic, true
	}
}

// Lookup finds a setting; nil if there is none.
func Lookup(scope Scope, name string) *Setting {
	if scope == Topic {
		return topicByName[name]
	}
	return brokerByName[name]
}

func mustLookup(scope Scope, name string) *Setting {
	s := Lookup(scope, name)
	if s == nil {
		panic("BUG: no setting is called " + name)
	}
	return s
}

// ValidateTopic checks one topic setting as a client gave it. The error is fit
// to be shown to the user (INVALID_CONFIG).
func ValidateTopic(name, value string) error {
	s := Lookup(Topic, name)
	if s == nil {
		return unknown(Topic, name)
	}
	return named(s, s.Validate(value))
}

// ValidateInternalTopic is ValidateTopic for the broker's own topics. They are
// kept short by their coordinators, and may say cleanup.policy=compact as
// Kafka's do.
func ValidateInternalTopic(name, value string) error {
	s := Lookup(Topic, name)
	if s == nil {
		return unknown(Topic, name)
	}
	return named(s, s.validateType(value))
}

// ValidateBroker checks one dynamic broker setting as a client gave it, for one
// broker or for all of them.
func ValidateBroker(name, value string) error {
	s := Lookup(Broker, name)
	if s == nil {
		return unknown(Broker, name)
	}
	if !s.Dynamic {
		return fmt.Errorf("%s cannot be changed while the broker runs: set it in the configuration file and restart", name)
	}
	return named(s, s.Validate(value))
}

// ListDefault tells of a setting that takes the append and subtract operations
// of IncrementalAlterConfigs (isList), and the default that they start from.
func ListDefault(scope Scope, name string) (value string, isList bool) {
	s := Lookup(scope, name)
	if s == nil || s.Type != List {
		return "", false
	}
	return s.Default, true
}

func named(s *Setting, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

func unknown(scope Scope, name string) error {
	kind := "broker"
	if scope == Topic {
		kind = "topic"
	}
	msg := fmt.Sprintf("no %s setting is called %q", kind, name)
	if scope == Broker && topicByName[name] != nil {
		msg += ", it is a topic setting"
	}
	n := nearest(scope, name)
	if other := otherNames[strings.ToLower(name)]; scope == Broker && other != "" {
		n = other
	}
	if n != "" {
		msg += fmt.Sprintf("; did you mean %s?", n)
	}
	return refusal(msg)
}

// otherNames are what users of Kafka try first, and what it is called here.
var otherNames = map[string]string{"log.dirs": "data.dir", "log.dir": "data.dir", "broker.id": "node.id"}

// nearest is the known name with the smallest edit distance, empty when none is
// close: more than a third of the name would have to change.
func nearest(scope Scope, name string) string {
	best, bestDist := "", len(name)/3+1
	for s := range All(scope) {
		if d := distance(strings.ToLower(name), s.Name, bestDist); d < bestDist {
			best, bestDist = s.Name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b, or limit when it is at least
// that.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost = min(diag, row[j], row[j+1]) + 1
			}
			diag, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}
