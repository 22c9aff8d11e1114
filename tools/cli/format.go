package cli

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

const formatHelp = "%v value, %k key, %t topic, %p partition, %o offset, %T timestamp in ms, %h headers as\n" +
	"name=value,..., %S and %K size of value and key (-1: null), %% a percent sign; also \\n \\r \\t\n" +
	"\\0 \\\\ and \\xHH. %s is %v, as in kcat."

// format is a compiled format string: literal bytes between the fields.
type format []formatPart

type formatPart struct {
	literal string
	field   byte // 0: none
}

func parseFormat(s string) (format, error) {
	var f format
	var lit []byte
	bad := func(i int, why string) (format, error) {
		return nil, usagef("--format: %s at character %d of %q", why, i+1, s).hint("%s", formatHelp)
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '%':
			i++
			if i == len(s) {
				return bad(i-1, "a lone %")
			}
			switch c := s[i]; c {
			case '%':
				lit = append(lit, '%')
			case 'v', 's', 'k', 't', 'p', 'o', 'T', 'h', 'S', 'K':
				f = append(f, formatPart{string(lit), c})
				lit = nil
			default:
				return bad(i-1, "unknown field %"+string(c))
			}
		case '\\':
			b, n, ok := unescape(s[i:])
			if !ok {
				return bad(i, "unknown escape")
			}
			lit = append(lit, b)
			i += n - 1
		default:
			lit = append(lit, s[i])
		}
	}
	if len(lit) > 0 {
		f = append(f, formatPart{literal: string(lit)})
	}
	return f, nil
}

// unescape reads one escape at the start of s: its byte and its length.
func unescape(s string) (byte, int, bool) {
	if len(s) < 2 {
		return 0, 0, false
	}
	switch s[1] {
	case 'n':
		return '\n', 2, true
	case 'r':
		return '\r', 2, true
	case 't':
		return '\t', 2, true
	case '0':
		return 0, 2, true
	case '\\':
		return '\\', 2, true
	case 'x':
		if len(s) >= 4 {
			if n, err := strconv.ParseUint(s[2:4], 16, 8); err == nil {
				return byte(n), 4, true
			}
		}
	}
	return 0, 0, false
}

// unescapeAll reads escapes anywhere in a flag's value.
func unescapeAll(flag, s string) (string, error) {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		b, n, ok := unescape(s[i:])
		if !ok {
			return "", usagef("%s: unknown escape at character %d of %q", flag, i+1, s).hint("Known are \\n \\r \\t \\0 \\\\ and \\xHH.")
		}
		out = append(out, b)
		i += n - 1
	}
	return string(out), nil
}

func (f format) append(b []byte, r *kgo.Record) []byte {
	for _, p := range f {
		b = append(b, p.literal...)
		switch p.field {
		case 'v', 's':
			b = append(b, r.Value...)
		case 'k':
			b = append(b, r.Key...)
		case 't':
			b = append(b, r.Topic...)
		case 'p':
			b = strconv.AppendInt(b, int64(r.Partition), 10)
		case 'o':
			b = strconv.AppendInt(b, r.Offset, 10)
		case 'T':
			b = strconv.AppendInt(b, r.Timestamp.UnixMilli(), 10)
		case 'S':
			b = strconv.AppendInt(b, size(r.Value), 10)
		case 'K':
			b = strconv.AppendInt(b, size(r.Key), 10)
		case 'h':
			for i, h := range r.Headers {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(append(append(b, h.Key...), '='), h.Value...)
			}
		}
	}
	return b
}

func size(b []byte) int64 {
	if b == nil {
		return -1
	}
	return int64(len(b))
}

// jsonRecord is one line of `consume --json`. Bytes that are not UTF-8 are in
// the field with _base64 and not in the other.
type jsonRecord struct {
	Topic       string       `json:"topic"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   string       `json:"timestamp"`
	TimestampMs int64        `json:"timestamp_ms"`
	Key         *string      `json:"key"`
	KeyBase64   string       `json:"key_base64,omitempty"`
	Value       *string      `json:"value"`
	ValueBase64 string       `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers"`
}

type jsonHeader struct {
	Name        string  `json:"name"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"value_base64,omitempty"`
}

func appendJSON(b []byte, r *kgo.Record) ([]byte, error) {
	j := jsonRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
		Timestamp: r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z07:00"), TimestampMs: r.Timestamp.UnixMilli(),
		Headers: []jsonHeader{},
	}
	j.Key, j.KeyBase64 = textOrBase64(r.Key)
	j.Value, j.ValueBase64 = textOrBase64(r.Value)
	for _, h := range r.Headers {
		v, b64 := textOrBase64(h.Value)
		j.Headers = append(j.Headers, jsonHeader{h.Key, v, b64})
	}
	line, err := json.Marshal(j)
	return append(append(b, line...), '\n'), err
}

func textOrBase64(b []byte) (*string, string) {
	if b == nil {
		return nil, ""
	}
	if !utf8.Valid(b) {
		return nil, base64.StdEncoding.EncodeToString(b)
	}
	s := string(b)
	return &s, ""
}
