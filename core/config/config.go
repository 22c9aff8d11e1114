package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Origin says where a value comes from, with the number that DescribeConfigs
// gives it.
type Origin int8

const (
	FromTopic          Origin = 1 // the topic's own setting
	FromDynamicBroker  Origin = 2 // AlterConfigs for this broker
	FromDynamicCluster Origin = 3 // AlterConfigs for all brokers
	FromStatic         Origin = 4 // file, environment or flag
	FromDefault        Origin = 5
)

// Config is a broker's settings: what file, environment and flags say, and over
// it the dynamic ones of the cluster and of this broker. Immutable.
type Config struct {
	static, cluster, node map[string]string
}

// Defaults is the Config of a start without any configuration.
func Defaults() *Config { return &Config{} }

// With returns a Config with these dynamic settings in place of the former
// ones. Values that the table does not accept are left out (they can come from
// a newer version). The maps are kept and not to be changed any more.
func (c *Config) With(cluster, node map[string]string) *Config {
	return &Config{static: c.static, cluster: served(cluster), node: served(node)}
}

func served(m map[string]string) map[string]string {
	ok := func(name, value string) bool {
		s := Lookup(Broker, name)
		return s != nil && s.Dynamic && s.Validate(value) == nil
	}
	for name, value := range m {
		if !ok(name, value) {
			m = maps.Clone(m)
			maps.DeleteFunc(m, func(n, v string) bool { return !ok(n, v) })
			return m
		}
	}
	return m
}

// Synonym is one place that could supply a setting's value.
type Synonym struct {
	Name   string
	Value  string
	Origin Origin
	scale  int64
}

// synonyms lists all places that supply a value for broker setting s, the
// strongest first.
func (c *Config) synonyms(s *Setting, scale int64, out []Synonym) []Synonym {
	add := func(m map[string]string, o Origin) {
		if v, ok := m[s.Name]; ok {
			out = append(out, Synonym{s.Name, v, o, scale})
		}
	}
	add(c.node, FromDynamicBroker)
	add(c.cluster, FromDynamicCluster)
	add(c.static, FromStatic)
	for _, f := range s.From {
		out = c.synonyms(mustLookup(Broker, f.Name), scale*f.Scale, out)
	}
	if !s.Unset {
		out = append(out, Synonym{s.Name, s.Default, FromDefault, scale})
	}
	return out
}

func (y *Synonym) scaled() string {
	if y.scale == 1 {
		return y.Value
	}
	n, err := strconv.ParseInt(strings.TrimSpace(y.Value), 10, 64)
	if err != nil {
		panic("BUG: setting " + y.Name + " holds an unchecked value")
	}
	if n < 0 {
		return y.Value
	}
	return strconv.FormatInt(n*y.scale, 10)
}

func (c *Config) value(name string) (string, bool) {
	list := c.synonyms(mustLookup(Broker, name), 1, nil)
	if len(list) == 0 {
		return "", false
	}
	return list[0].scaled(), true
}

// Text returns a broker setting's value as text; empty where it is unset. An
// unknown name is a bug.
func (c *Config) Text(name string) string {
	v, _ := c.value(name)
	return v
}

// Int returns a broker setting's number.
func (c *Config) Int(name string) int64 {
	v, _ := c.value(name)
	return number(name, v)
}

// Bool returns a broker setting's truth value.
func (c *Config) Bool(name string) bool {
	v, _ := c.value(name)
	return strings.EqualFold(strings.TrimSpace(v), "true")
}

// List returns a broker setting's elements.
func (c *Config) List(name string) []string {
	v, _ := c.value(name)
	return SplitList(v)
}

func number(name, v string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if err != nil {
		panic("BUG: setting " + name + " is not a number: " + v)
	}
	return n
}

// TopicText returns a topic's effective setting as text: its own, else the
// broker's, else the default. own may hold names and values that the table does
// not know (they can come from a newer version); these are passed over.
func (c *Config) TopicText(own map[string]string, name string) string {
	list := c.topicSynonyms(own, mustLookup(Topic, name))
	return list[0].scaled()
}

// TopicInt is TopicText for numbers.
func (c *Config) TopicInt(own map[string]string, name string) int64 {
	return number(name, c.TopicText(own, name))
}

// TopicList is TopicText for lists.
func (c *Config) TopicList(own map[string]string, name string) []string {
	return SplitList(c.TopicText(own, name))
}

func (c *Config) topicSynonyms(own map[string]string, s *Setting) []Synonym {
	var out []Synonym
	if v, ok := own[s.Name]; ok && s.validateType(v) == nil {
		out = append(out, Synonym{s.Name, v, FromTopic, 1})
	}
	for _, f := range s.From {
		out = c.synonyms(mustLookup(Broker, f.Name), f.Scale, out)
	}
	if len(out) == 0 || out[len(out)-1].Origin != FromDefault {
		out = append(out, Synonym{s.Name, s.Default, FromDefault, 1})
	}
	return out
}

// Entry is one setting as DescribeConfigs shows it.
type Entry struct {
	Setting *Setting
	// Value is the effective value; Set is false where there is none.
	Value  string
	Set    bool
	Given  string // the text that was set, where it is the topic's own
	Origin Origin
	// Synonyms are all places that supply a value, the strongest first.
	Synonyms []Synonym
}

func entry(s *Setting, list []Synonym) Entry {
	e := Entry{Setting: s, Origin: FromDefault, Synonyms: list}
	if len(list) > 0 {
		e.Value, e.Set, e.Origin = list[0].scaled(), true, list[0].Origin
	}
	return e
}

// DescribeTopic lists a topic's settings in order of their names.
func (c *Config) DescribeTopic(own map[string]string) []Entry {
	out := make([]Entry, 0, len(topicSettings))
	for i := range topicSettings {
		s := &topicSettings[i]
		e := entry(s, c.topicSynonyms(own, s))
		if n := len(e.Synonyms); len(s.From) == 0 {
			e.Synonyms = e.Synonyms[:n-1] // no broker setting supplies the default
		}
		switch {
		case e.Origin == FromTopic:
			e.Given = e.Value
			e.Value = s.shown(e.Value)
			e.Synonyms[0].Value = e.Value
			if len(e.Synonyms) == 2 && e.Synonyms[1].Origin == FromDefault && e.Synonyms[1].Name != s.From[0].Name {
				e.Synonyms = e.Synonyms[:1] // nor here
			}
		case e.Origin == FromDefault && len(e.Synonyms) > 0 && e.Synonyms[0].Name != s.From[0].Name:
			e.Synonyms = nil // a default in another unit is not shown
		}
		out = append(out, e)
	}
	return out
}

// DescribeBroker lists this broker's settings in order of their names. A value
// that only another setting supplies (log.retention.hours for log.retention.ms)
// is among the synonyms alone, as in Kafka.
func (c *Config) DescribeBroker() []Entry {
	out := make([]Entry, 0, len(brokerSettings))
	for i := range brokerSettings {
		s := &brokerSettings[i]
		e := entry(s, c.synonyms(s, 1, nil))
		if e.Set && e.Synonyms[0].Name != s.Name {
			e.Value, e.Set, e.Origin = "", false, FromDefault
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Setting.Name, b.Setting.Name) })
	return out
}

// DescribeCluster lists the dynamic settings of all brokers, those alone.
func DescribeCluster(cluster map[string]string) []Entry {
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(cluster)) {
		if s := Lookup(Broker, name); s != nil {
			out = append(out, entry(s, []Synonym{{name, cluster[name], FromDynamicCluster, 1}}))
		}
	}
	return out
}

// Listeners are where to listen, in order.
func (c *Config) Listeners() []Listener { return c.listeners("listeners") }

// Advertised are the addresses that clients are told, by listener name.
func (c *Config) Advertised() []Listener { return c.listeners("advertised.listeners") }

func (c *Config) listeners(name string) []Listener {
	tls := map[string]bool{}
	for _, e := range c.List("listener.security.protocol.map") {
		n, proto, _ := strings.Cut(e, ":")
		tls[strings.ToUpper(n)] = proto == "SSL"
	}
	var out []Listener
	for _, e := range c.List(name) {
		l, err := parseListener(e)
		if err != nil {
			panic(fmt.Sprintf("BUG: %s was not checked: %v", name, err))
		}
		l.TLS = tls[l.Name]
		out = append(out, l)
	}
	return out
}
