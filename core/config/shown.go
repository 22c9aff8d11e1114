package config

import (
	"slices"
	"strconv"
	"strings"
)

// shown is a topic's own value as DescribeConfigs has it: read and written again,
// as in Kafka ("TRUE" is "true", " 5" is "5", a ratio of "1" is "1.0", and a list
// of fixed words has each of them once).
func (s *Setting) shown(value string) string {
	v := strings.TrimSpace(value)
	switch s.Type {
	case Bool:
		return strings.ToLower(v)
	case Int, Long:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	case Double:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			v = strconv.FormatFloat(f, 'f', -1, 64)
			if !strings.Contains(v, ".") {
				v += ".0"
			}
		}
	case List:
		list := SplitList(v)
		if s.Allowed != nil {
			list = once(list)
		}
		return strings.Join(list, ",")
	}
	return v
}

// once keeps the first of equal elements.
func once(list []string) []string {
	var out []string
	for _, e := range list {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}
