package main

import (
	"fmt"
	"regexp"
)

// Difference is one place where two answers do not agree.
type Difference struct {
	Path     string // e.g. Topics[a].Partitions[0].ErrorCode; "outcome" for the whole
	Kafka    string
	Millrace string
}

// absent stands for an element that one side does not have.
const absent = "absent"

var inBrackets = regexp.MustCompile(`\[[^\]]*\]`)

// pattern is the path without the names of elements.
func (d Difference) pattern() string { return inBrackets.ReplaceAllString(d.Path, "") }

func (d Difference) String() string {
	return fmt.Sprintf("%s: kafka %s, millrace %s", d.Path, short(d.Kafka, 300), short(d.Millrace, 300))
}

func short(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// compare lists the differences of two answers.
func compare(kafka, millrace node, path string) []Difference {
	if kafka.parts == nil && millrace.parts == nil {
		if kafka.leaf == millrace.leaf {
			return nil
		}
		return []Difference{{path, kafka.leaf, millrace.leaf}}
	}
	if kafka.list() && millrace.list() {
		return compareLists(kafka, millrace, path)
	}
	if kafka.parts == nil || millrace.parts == nil || len(kafka.parts) != len(millrace.parts) {
		return []Difference{{path, kafka.String(), millrace.String()}}
	}
	var all []Difference
	for i, p := range kafka.parts {
		sub := p.name
		if path != "" {
			sub = path + "." + p.name
		}
		all = append(all, compare(p.node, millrace.parts[i].node, sub)...)
	}
	return all
}

func (n *node) list() bool { return n.isList || n.leaf == "[]" || n.leaf == "null" }

func compareLists(kafka, millrace node, path string) []Difference {
	other := make(map[string]node, len(millrace.parts))
	for _, p := range millrace.parts {
		other[p.name] = p.node
	}
	var all []Difference
	for _, p := range kafka.parts {
		sub := fmt.Sprintf("%s[%s]", path, p.name)
		m, ok := other[p.name]
		if !ok {
			all = append(all, Difference{sub, p.node.String(), absent})
			continue
		}
		delete(other, p.name)
		all = append(all, compare(p.node, m, sub)...)
	}
	for _, p := range millrace.parts {
		if _, ok := other[p.name]; ok {
			all = append(all, Difference{fmt.Sprintf("%s[%s]", path, p.name), absent, p.node.String()})
		}
	}
	return all
}
