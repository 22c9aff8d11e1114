package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// EnvPrefix starts the environment variables that are settings:
// MILLRACE_LOG_RETENTION_MS is log.retention.ms.
const EnvPrefix = "MILLRACE_"

// FileBytesMax is the size of the largest configuration file that Load reads.
const FileBytesMax = 1 << 20

// Input is what Load reads, the weakest first.
type Input struct {
	// FileName is used in messages, File is the file's content (YAML).
	FileName string
	File     []byte
	// Environ has the form of os.Environ. Variables that EnvIgnore names are
	// not settings.
	Environ   []string
	EnvIgnore []string
	// Flags are the settings of the command line in their order, the last of a
	// name wins.
	Flags []Assignment
}

// Assignment is one setting with its value as text.
type Assignment struct{ Name, Value string }

// Faults are all that Load found wrong, one line each.
type Faults []string

func (f Faults) Error() string {
	if len(f) == 1 {
		return f[0]
	}
	return fmt.Sprintf("%d settings are wrong:\n  %s", len(f), strings.Join(f, "\n  "))
}

// Load makes a Config. All faults are reported at once (Faults), each with the
// setting, where it was given, and what is allowed.
func Load(in Input) (*Config, error) {
	var l loader
	l.static = map[string]string{}
	if len(in.File) > 0 {
		where := cmp.Or(in.FileName, "configuration file")
		settings, err := ParseFile(in.File)
		if err != nil {
			var f Faults
			if !errors.As(err, &f) {
				f = Faults{err.Error()}
			}
			for _, line := range f {
				l.faults = append(l.faults, where+": "+line)
			}
		}
		for _, a := range settings {
			l.set(where, a)
		}
	}
	for _, kv := range in.Environ {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || !strings.HasPrefix(name, EnvPrefix) || slices.Contains(in.EnvIgnore, name) {
			continue
		}
		l.set("environment "+name, Assignment{envSetting(name), value})
	}
	for _, a := range in.Flags {
		l.set("command line", a)
	}
	c := &Config{static: l.static}
	if len(l.faults) == 0 {
		l.faults = c.checkTogether()
	}
	if len(l.faults) > 0 {
		return nil, l.faults
	}
	return c, nil
}

type loader struct {
	static map[string]string
	faults Faults
}

func (l *loader) set(where string, a Assignment) {
	s := Lookup(Broker, a.Name)
	if s == nil {
		l.faults = append(l.faults, fmt.Sprintf("%s: %v", where, unknown(Broker, a.Name)))
		return
	}
	if err := s.Validate(a.Value); err != nil {
		l.faults = append(l.faults, fmt.Sprintf("%s: %s: %v", where, s.Name, err))
		return
	}
	l.static[s.Name] = a.Value
}

// envSetting maps MILLRACE_LOG_RETENTION_MS to log.retention.ms.
func envSetting(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, EnvPrefix)), "_", ".")
}

// EnvName is the environment variable of a broker setting.
func EnvName(setting string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(setting, ".", "_"))
}

// ParseFile reads a configuration file: flat dotted names, nested maps, or both
// mixed. Names are not looked up. The settings come in the file's order; a name
// given twice and a value that is neither scalar nor list are refused (Faults,
// with the settings that could be read).
func ParseFile(text []byte) ([]Assignment, error) {
	if len(text) > FileBytesMax {
		return nil, fmt.Errorf("the file has %d bytes, at most %d are read", len(text), FileBytesMax)
	}
	var doc any
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("not valid YAML: %s", strings.TrimSpace(firstLine(yaml.FormatError(err, false, false))))
	}
	p := fileParser{seen: map[string]bool{}}
	switch top := doc.(type) {
	case nil:
	case yaml.MapSlice:
		p.walk("", top)
	default:
		return nil, errors.New("the file must hold settings as name: value")
	}
	if len(p.faults) > 0 {
		return p.out, p.faults
	}
	return p.out, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

type fileParser struct {
	seen   map[string]bool
	out    []Assignment
	faults Faults
}

func (p *fileParser) walk(prefix string, m yaml.MapSlice) {
	for _, item := range m {
		key, ok := scalar(item.Key)
		if !ok || key == "" {
			p.faults = append(p.faults, fmt.Sprintf("a name under %q is not text", prefix))
			continue
		}
		name := key
		if prefix != "" {
			name = prefix + "." + key
		}
		switch v := item.Value.(type) {
		case yaml.MapSlice:
			p.walk(name, v)
			continue
		case []any:
			p.list(name, v)
			continue
		}
		text, ok := scalar(item.Value)
		if !ok {
			p.faults = append(p.faults, name+": the value is neither text, number, true/false nor a list of these")
			continue
		}
		p.add(name, text)
	}
}

func (p *fileParser) list(name string, v []any) {
	parts := make([]string, 0, len(v))
	for _, e := range v {
		text, ok := scalar(e)
		if !ok || strings.Contains(text, ",") {
			p.faults = append(p.faults, name+": the list holds more than plain values")
			return
		}
		parts = append(parts, text)
	}
	p.add(name, strings.Join(parts, ","))
}

func (p *fileParser) add(name, value string) {
	if p.seen[name] {
		p.faults = append(p.faults, name+": given twice")
		return
	}
	p.seen[name] = true
	p.out = append(p.out, Assignment{name, value})
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// checkTogether refuses values that do not fit each other.
func (c *Config) checkTogether() Faults {
	var f Faults
	fault := func(format string, args ...any) { f = append(f, fmt.Sprintf(format, args...)) }
	if lo, hi := c.Int("group.min.session.timeout.ms"), c.Int("group.max.session.timeout.ms"); lo > hi {
		fault("group.min.session.timeout.ms (%d) is above group.max.session.timeout.ms (%d)", lo, hi)
	}
	if b, m := c.Int("message.max.bytes"), c.Int("socket.request.max.bytes"); b > m {
		fault("message.max.bytes (%d) is above socket.request.max.bytes (%d): such a batch could not be sent", b, m)
	}
	if in, all := c.Int("memory.inflight.bytes"), c.Int("memory.payload.bytes"); in > all/2 {
		fault("memory.inflight.bytes (%d) is above half of memory.payload.bytes (%d): the rest keeps the newest records", in, all)
	}
	protocols := map[string]bool{}
	for _, e := range c.List("listener.security.protocol.map") {
		name, _, _ := strings.Cut(e, ":")
		protocols[strings.ToUpper(name)] = true
	}
	listening, anyTLS := map[string]bool{}, false
	for _, l := range c.Listeners() {
		if !protocols[l.Name] {
			fault("listeners: %s has no protocol in listener.security.protocol.map", l.Name)
		}
		listening[l.Name] = true
		anyTLS = anyTLS || l.TLS
	}
	for _, l := range c.Advertised() {
		switch {
		case !listening[l.Name]:
			fault("advertised.listeners: %s is not one of listeners", l.Name)
		case l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::":
			fault("advertised.listeners: %s must name a host that clients can reach", l.Name)
		}
	}
	for _, name := range []string{"ssl.certificate.file", "ssl.key.file"} {
		if anyTLS && c.Text(name) == "" {
			fault("%s is unset and listeners has an SSL listener: give a PEM file", name)
		}
	}
	if c.Text("ssl.client.auth") == "required" && c.Text("ssl.truststore.file") == "" {
		fault("ssl.truststore.file is unset and ssl.client.auth=required: give a PEM file")
	}
	return f
}
