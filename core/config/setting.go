package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type says how a setting's text is read.
type Type uint8

// The types, with the number that DescribeConfigs v3 gives each (KIP-569).
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits
	Long     Type = 5 // 64 bits
	Double   Type = 6
	List     Type = 7 // comma separated
	Password Type = 9
)

func (t Type) String() string {
	switch t {
	case Bool:
		return "boolean"
	case Int:
		return "int"
	case Long:
		return "long"
	case Double:
		return "double"
	case List:
		return "list"
	case Password:
		return "password"
	}
	return "string"
}

// Scope says what a setting belongs to.
type Scope uint8

const (
	// Broker settings come from file, environment and flags; the dynamic ones
	// also from AlterConfigs, for one broker or for all.
	Broker Scope = iota
	// Topic settings are given with CreateTopics or AlterConfigs.
	Topic
)

// Setting is one row of the table.
type Setting struct {
	Name  string
	Type  Type
	Scope Scope
	// Unit of the number: "ms", "bytes", ... or empty.
	Unit string
	// Default as text; Unset says that there is none (Kafka shows null).
	Default string
	Unset   bool
	// Min and Max bound numbers, both included.
	Min, Max float64
	// Allowed lists the only values (for a List: the only elements).
	Allowed []string
	// Only, when not empty, is the single value served: every other valid one is
	// refused with Why.
	Only string
	// Why explains Only, or, with NoEffect, why the setting changes nothing.
	Why string
	// NoEffect: accepted, kept and shown as Kafka's tools expect, and changes
	// nothing here.
	NoEffect bool
	// Dynamic: a change of a broker setting takes effect without a restart.
	Dynamic bool
	// Sensitive values are never shown.
	Sensitive bool
	// From names the broker settings that supply a topic setting's default, the
	// strongest first. A broker setting may have weaker ones too
	// (log.retention.ms, .minutes, .hours); Scale converts each to this
	// setting's unit (0 means 1).
	From []Source
	// Check refuses what type and bounds cannot say; nil accepts.
	Check func(value string) error
	// Group is the heading in docs/CONFIG.md.
	Group string
	// Text is one line of documentation.
	Text string
}

// Source is a broker setting that supplies another's default.
type Source struct {
	Name  string
	Scale int64
}

const (
	anyMin = -math.MaxFloat64
	anyMax = math.MaxFloat64
	maxInt = math.MaxInt32
)

// Validate checks one value. The error says what is allowed, without the name.
func (s *Setting) Validate(value string) error {
	if err := s.validateType(value); err != nil {
		return err
	}
	if s.Check != nil {
		if err := s.Check(value); err != nil {
			return err
		}
	}
	if s.Only != "" && strings.TrimSpace(value) != s.Only && !strings.EqualFold(value, s.Only) {
		return fmt.Errorf("value %q is not served, only %q is: %s", value, s.Only, s.Why)
	}
	return nil
}

func (s *Setting) validateType(value string) error {
	v := strings.TrimSpace(value)
	switch s.Type {
	case Bool:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return fmt.Errorf("value %q is not true or false", value)
		}
	case Int, Long:
		bits := 64
		if s.Type == Int {
			bits = 32
		}
		n, err := strconv.ParseInt(v, 10, bits)
		if err != nil {
			return fmt.Errorf("value %q is not a whole number of %d bits%s", value, bits, s.rangeText())
		}
		return s.checkRange(value, float64(n))
	case Double:
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsNaN(n) {
			return fmt.Errorf("value %q is not a number%s", value, s.rangeText())
		}
		return s.checkRange(value, n)
	case List:
		if v == "" {
			return nil // the empty list
		}
		for e := range strings.SplitSeq(value, ",") {
			if e = strings.TrimSpace(e); len(s.Allowed) > 0 && !slices.Contains(s.Allowed, e) {
				return fmt.Errorf("value %q is not one of %s", e, strings.Join(s.Allowed, ", "))
			}
		}
	default:
		if len(s.Allowed) > 0 && !slices.Contains(s.Allowed, value) {
			return fmt.Errorf("value %q is not one of %s", value, strings.Join(s.Allowed, ", "))
		}
	}
	return nil
}

func (s *Setting) checkRange(value string, n float64) error {
	if n < s.Min || n > s.Max {
		return fmt.Errorf("value %s is out of range%s", strings.TrimSpace(value), s.rangeText())
	}
	return nil
}

// Range describes the values allowed, empty when any of the type is.
func (s *Setting) Range() string {
	switch {
	case s.Only != "":
		return "only " + s.Only
	case len(s.Allowed) > 0:
		return strings.Join(s.Allowed, ", ")
	case s.Type != Int && s.Type != Long && s.Type != Double:
		return ""
	case s.Min > anyMin && s.Max < anyMax:
		return formatBound(s.Min) + " to " + formatBound(s.Max)
	case s.Min > anyMin:
		return formatBound(s.Min) + " or more"
	case s.Max < anyMax:
		return "up to " + formatBound(s.Max)
	}
	return ""
}

func (s *Setting) rangeText() string {
	if r := s.Range(); r != "" {
		unit := ""
		if s.Unit != "" {
			unit = " " + s.Unit
		}
		return ": allowed are " + r + unit
	}
	return ""
}

func formatBound(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<62 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// SplitList cuts a comma separated list; empty text is an empty list.
func SplitList(value string) []string {
	var out []string
	for e := range strings.SplitSeq(value, ",") {
		if e = strings.TrimSpace(e); e != "" {
			out = append(out, e)
		}
	}
	return out
}
