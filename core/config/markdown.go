package config

import (
	"fmt"
	"strings"
)

// Markdown writes docs/CONFIG.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Settings

This file is generated from the table in core/config by ` + "`make docs`" + `.

Broker settings come from four places, the weakest first: the default, the file
given with ` + "`--config FILE`" + ` (YAML; ` + "`log.retention.ms: 1000`" + ` and nested maps mean the
same), the environment (` + "`MILLRACE_LOG_RETENTION_MS=1000`" + `), and the command line
(` + "`--set log.retention.ms=1000`" + `, or the short flags ` + "`--data`, `--listen`, `--admin`" + `).
Over these stand the dynamic settings that Kafka's AlterConfigs requests set for
all brokers or for one; only those marked "dynamic" can be changed that way, the
others need a restart. Wrong values are all reported at once, and unknown names
are refused.

Names are Kafka's wherever Kafka has the setting.

## Broker settings
`)
	group := ""
	for s := range All(Broker) {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n### %s\n\n| setting | type | default | allowed | change | meaning |\n|---|---|---|---|---|---|\n", group)
		}
		change := "restart"
		if s.Dynamic {
			change = "dynamic"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", s.Name, typeText(s), defaultText(s), cell(s.Range()), change, cell(meaning(s)))
	}
	b.WriteString(`
## Topic settings

Given when a topic is made or changed later with Kafka's config requests; all
take effect without a restart. Where a broker setting is named, it supplies the
default.

| setting | type | default | from | allowed | meaning |
|---|---|---|---|---|---|
`)
	for s := range All(Topic) {
		if s.NoEffect {
			continue
		}
		src := ""
		if len(s.From) > 0 {
			src = "`" + s.From[0].Name + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", s.Name, typeText(s), defaultText(s), src, cell(s.Range()), cell(meaning(s)))
	}
	b.WriteString(`
## Topic settings without effect

Kafka's tools and clients may send these. They are checked, kept and shown, and
change nothing, for the reason given.

| setting | type | default | allowed | why |
|---|---|---|---|---|
`)
	for s := range All(Topic) {
		if s.NoEffect {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Name, typeText(s), defaultText(s), cell(s.Range()), cell(s.Why))
		}
	}
	return b.String()
}

func meaning(s *Setting) string {
	text := s.Text
	if s.Only != "" {
		text += " Other values are refused: " + s.Why + "."
	}
	return text
}

// Documentation is the text that DescribeConfigs v3 gives for a setting.
func (s *Setting) Documentation() string {
	if s.NoEffect {
		return s.Text + " Accepted without effect: " + s.Why + "."
	}
	return meaning(s)
}

func typeText(s *Setting) string {
	if s.Unit != "" {
		return s.Type.String() + ", " + s.Unit
	}
	return s.Type.String()
}

func defaultText(s *Setting) string {
	switch {
	case s.Unset:
		return "unset"
	case s.Default == "":
		return "empty"
	}
	return "`" + s.Default + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
