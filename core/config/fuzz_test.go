package config

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzParseFile reads foreign bytes as a configuration file. What it takes comes
// out the same when it is written flat and read again.
//
//fuzz:parses load.go:ParseFile,walk,list,add,scalar,firstLine
func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"a: 1", "a:\n  b: [1, x]\n", "log.retention.ms: -1\n", "a: &x 1\nb: *x\n", "\"\": 1", "? [a]\n: b",
		"a: &a [1,2]\nb: &b [*a,*a]\n", "a: 1.5\nb: true\nc: 0x1f\nd: 18446744073709551615\n", "a: {b: {c: d}}\na.b.c: e\n", "- a\n", "a: 'b,c'\nd: ['e,f']\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, err := ParseFile(text)
		seen := map[string]bool{}
		var flat strings.Builder
		for _, a := range settings {
			if a.Name == "" || seen[a.Name] {
				t.Fatalf("name %q is empty or twice in %q", a.Name, text)
			}
			seen[a.Name] = true
			fmt.Fprintf(&flat, "%s: %s\n", quoted(a.Name), quoted(a.Value))
		}
		if _, loadErr := Load(Input{File: text}); err != nil && len(text) > 0 && loadErr == nil {
			t.Fatalf("Load accepts what ParseFile refuses: %v", err)
		}
		if err != nil {
			return
		}
		again, err := ParseFile([]byte(flat.String()))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(settings) {
			t.Fatalf("%q is %q, written flat %q, %v", text, settings, again, err)
		}
	})
}

// quoted is YAML's form that can hold every text.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r > 0x7e:
			fmt.Fprintf(&b, "\\U%08X", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// useAll reads every setting in every way that the broker does.
func useAll(c *Config, topic map[string]string) {
	for s := range All(Broker) {
		use(s, c.Text, c.Int, c.Bool, c.List)
	}
	c.Listeners()
	c.Advertised()
	for s := range All(Topic) {
		use(s, func(n string) string { return c.TopicText(topic, n) }, func(n string) int64 { return c.TopicInt(topic, n) }, nil,
			func(n string) []string { return c.TopicList(topic, n) })
	}
	c.DescribeBroker()
	c.DescribeTopic(topic)
}

func use(s *Setting, text func(string) string, number func(string) int64, truth func(string) bool, list func(string) []string) {
	switch s.Type {
	case Int, Long:
		if !s.Unset || text(s.Name) != "" {
			number(s.Name)
		}
	case Bool:
		if truth != nil {
			truth(s.Name)
		}
	case List:
		list(s.Name)
	default:
		text(s.Name)
	}
}

// FuzzValues gives settings values from outside: of file, environment and flags,
// and as AlterConfigs and CreateTopics bring them. Whatever is accepted can be
// used, and is accepted again.
//
//fuzz:parses setting.go:Validate,validateType,checkRange,SplitList checks.go lookup.go:ValidateTopic,ValidateInternalTopic,ValidateBroker,ListDefault,unknown,nearest,distance load.go:Load,set,envSetting,checkTogether config.go
func FuzzValues(f *testing.F) {
	for s := range All(Broker) {
		f.Add(s.Name, s.Default)
	}
	for s := range All(Topic) {
		f.Add(s.Name, s.Default)
	}
	for _, v := range [][2]string{
		{"log.retention.hours", "2147483647"}, {"log.retention.minutes", "2147483647"}, {"retention.ms", " 5 "}, {"retention.ms", "+5"},
		{"listeners", "PLAINTEXT://:0,SSL://[::1]:9"}, {"listeners", "a://b"}, {"advertised.listeners", "PLAINTEXT://h:1"},
		{"listener.security.protocol.map", "A:SSL,B:PLAINTEXT"}, {"cleanup.policy", "compact,delete"}, {"cleanup.policy", ""},
		{"min.cleanable.dirty.ratio", "NaN"}, {"min.cleanable.dirty.ratio", "1e-400"}, {"unclean.leader.election.enable", "TRUE"},
		{"retention.mss", "1"}, {"message.max.bytes", "1e3"}, {"segment.bytes", "9223372036854775808"}, {"admin.listen", "off"},
	} {
		f.Add(v[0], v[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		for what, in := range map[string]Input{
			"flag":        {Flags: []Assignment{{name, value}}},
			"environment": {Environ: []string{EnvName(name) + "=" + value, "OTHER=1", "broken"}},
			"file":        {File: []byte(quoted(name) + ": " + quoted(value) + "\n")},
		} {
			c, err := Load(in)
			if (c == nil) == (err == nil) {
				t.Fatalf("%s %q=%q: %v, %v", what, name, value, c, err)
			}
			if err == nil {
				useAll(c, nil)
			}
		}
		if ValidateBroker(name, value) == nil {
			m := map[string]string{name: value}
			c := Defaults().With(m, m)
			useAll(c, nil)
			if again := c.With(nil, nil); again.Text(name) != Defaults().Text(name) {
				t.Fatalf("%q=%q stays without being set", name, value)
			}
		}
		if err := ValidateTopic(name, value); err == nil {
			if err := ValidateInternalTopic(name, value); err != nil {
				t.Fatalf("%q=%q is accepted for topics and not for the broker's own: %v", name, value, err)
			}
			useAll(Defaults(), map[string]string{name: value})
		} else if len(err.Error()) > 4*len(name)+4*len(value)+1000 {
			t.Fatalf("a refusal of %d bytes for %d", len(err.Error()), len(name)+len(value))
		}
		if s := Lookup(Topic, name); s != nil {
			elements := SplitList(value)
			if again := SplitList(strings.Join(elements, ",")); fmt.Sprint(again) != fmt.Sprint(elements) {
				t.Fatalf("%q is the list %q, joined %q", value, elements, again)
			}
		}
		// Names of settings of the future, and of nothing at all, are left out.
		useAll(Defaults().With(map[string]string{name: value}, nil), map[string]string{name: value})
	})
}
