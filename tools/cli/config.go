package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) configCommand() *cobra.Command {
	return family("config", "Show and change settings of topics and brokers",
		"Show and change settings. What they belong to is written as \"topic NAME\" or \"broker ID\";\n\"broker default\" means all brokers.",
		a.configGet(), a.configChange("set"), a.configChange("unset"))
}

type setting struct{ name, value string }

// parseSettings reads NAME=VALUE.
func parseSettings(flag string, list []string, example string) ([]setting, error) {
	var out []setting
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, usagef("%s: %q is not NAME=VALUE", flag, kv).hint("For example %s.", example)
		}
		out = append(out, setting{name, value})
	}
	return out, nil
}

type configRow struct {
	Name      string  `json:"name"`
	Value     *string `json:"value"` // missing where it is secret or unset
	Source    string  `json:"source"`
	Sensitive bool    `json:"sensitive"`
	source    kmsg.ConfigSource
}

func (c configRow) text() string {
	switch {
	case c.Sensitive:
		return "(hidden)"
	case c.Value == nil:
		return "-"
	}
	return *c.Value
}

func configRows(rc kadm.ResourceConfig) []configRow {
	rows := []configRow{}
	for _, c := range rc.Configs {
		rows = append(rows, configRow{c.Key, c.Value, sourceName(c.Source), c.Sensitive, c.Source})
	}
	slices.SortFunc(rows, func(a, b configRow) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// sourceName is where a value comes from.
func sourceName(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "all brokers"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "broker's file"
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	}
	return strings.ToLower(s.String())
}

// owner is what settings belong to.
type owner struct {
	topic  string // empty: a broker
	broker int32  // -1: all brokers
}

func (o owner) String() string {
	switch {
	case o.topic != "":
		return fmt.Sprintf("topic %q", o.topic)
	case o.broker < 0:
		return "all brokers"
	}
	return fmt.Sprintf("broker %d", o.broker)
}

func parseOwner(kind, name string) (owner, error) {
	switch kind {
	case "topic":
		return owner{topic: name}, nil
	case "broker":
		if name == "default" {
			return owner{broker: -1}, nil
		}
		n, err := strconv.ParseInt(name, 10, 32)
		if err != nil || n < 0 {
			return owner{}, usagef("%q is no broker", name).hint("Give a broker's id, as \"millrace cluster describe\" shows it, or \"default\" for all brokers.")
		}
		return owner{broker: int32(n)}, nil
	}
	return owner{}, usagef("%q has no settings", kind).hint("%s", didYouMean(kind, []string{"topic", "broker"}, "Write \"topic NAME\", \"broker ID\" or \"broker default\"."))
}

// completeOwner completes "topic NAME", then setting names are the user's.
func (a *app) completeOwner(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"topic", "broker"}, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == "topic":
		return a.completeTopics(-1)(cmd, nil, prefix)
	case len(args) == 1 && args[0] == "broker":
		return []string{"default"}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (s *session) configs(ctx context.Context, o owner) ([]configRow, error) {
	var got kadm.ResourceConfigs
	var err error
	switch {
	case o.topic != "":
		got, err = s.adm.DescribeTopicConfigs(ctx, o.topic)
	case o.broker < 0:
		got, err = s.adm.DescribeBrokerConfigs(ctx)
	default:
		if err = s.hasBroker(ctx, o.broker); err == nil {
			got, err = s.adm.DescribeBrokerConfigs(ctx, o.broker)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(got) != 1 {
		return nil, failf(ExitFailed, "the broker did not answer for %v", o)
	}
	if errors.Is(got[0].Err, kerr.UnknownTopicOrPartition) && o.topic != "" {
		return nil, s.noSuchTopic(ctx, o.topic)
	}
	if got[0].Err != nil {
		return nil, explainErr("settings of "+o.String(), got[0].Err, got[0].ErrMessage)
	}
	return configRows(got[0]), nil
}

func (s *session) hasBroker(ctx context.Context, id int32) error {
	m, err := s.adm.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	if ids := m.Brokers.NodeIDs(); !slices.Contains(ids, id) {
		return failf(ExitNotFound, "there is no broker %d", id).hint("Brokers: %s.", nums(ids))
	}
	return nil
}

func (a *app) configGet() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "get (topic NAME | broker ID) [SETTING...]", Short: "Show settings",
		Long: "Show the settings that differ from the broker's defaults, those that are named, or --all.",
		Args: takes(2, -1, "what the settings belong to"), ValidArgsFunction: a.completeOwner,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := parseOwner(args[0], args[1])
			if err != nil {
				return err
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				rows, err := s.configs(ctx, o)
				if err != nil {
					return err
				}
				if rows, err = selectConfigs(rows, o, args[2:], all); err != nil {
					return err
				}
				return s.print(rows, func(t *textOut) {
					if len(rows) == 0 {
						t.line("Nothing is set for %v; --all shows what is in force.", o)
						return
					}
					var cells [][]string
					for _, r := range rows {
						cells = append(cells, []string{r.Name, r.text(), r.Source})
					}
					t.table([]string{"SETTING", "VALUE", "FROM"}, cells)
				})
			})
		},
	}
	c.Flags().BoolVarP(&all, "all", "a", false, "show defaults too")
	return c
}

// selectConfigs keeps the settings that are named, or those that are set.
func selectConfigs(rows []configRow, o owner, names []string, all bool) ([]configRow, error) {
	if len(names) == 0 && all {
		return rows, nil
	}
	out := []configRow{}
	if len(names) == 0 {
		for _, r := range rows {
			isSet := r.source != kmsg.ConfigSourceDefaultConfig
			if o.topic != "" {
				isSet = r.source == kmsg.ConfigSourceDynamicTopicConfig
			}
			if isSet {
				out = append(out, r)
			}
		}
		return out, nil
	}
	for _, n := range names {
		i := slices.IndexFunc(rows, func(r configRow) bool { return r.Name == n })
		if i < 0 {
			return nil, unknownSetting(o, n, rows)
		}
		out = append(out, rows[i])
	}
	return out, nil
}

func unknownSetting(o owner, name string, rows []configRow) *Error {
	var names []string
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return failf(ExitNotFound, "%v has no setting %q", o, name).
		hint("%s", didYouMean(name, names, "\"millrace config get\" with --all shows the settings."))
}

type configChange struct {
	Owner   string `json:"owner"` // topic or broker
	Name    string `json:"name"`  // of the topic, or the broker's id or "default"
	Setting string `json:"setting"`
	Value   string `json:"value,omitempty"`
	Result  string `json:"result"` // set or unset
}

// configChange makes `set` and `unset`.
func (a *app) configChange(verb string) *cobra.Command {
	var dry bool
	use, short, what := "set (topic NAME | broker ID) SETTING=VALUE...", "Change settings", "what the settings belong to, and SETTING=VALUE"
	if verb == "unset" {
		use, short, what = "unset (topic NAME | broker ID) SETTING...", "Return settings to their defaults", "what the settings belong to, and the settings"
	}
	c := &cobra.Command{
		Use: use, Short: short, Args: takes(3, -1, what), ValidArgsFunction: a.completeOwner,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := parseOwner(args[0], args[1])
			if err != nil {
				return err
			}
			var list []setting
			if verb == "set" {
				if list, err = parseSettings("setting", args[2:], "retention.ms=86400000"); err != nil {
					return err
				}
			} else {
				for _, n := range args[2:] {
					list = append(list, setting{name: n})
				}
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				return s.changeConfigs(ctx, o, args[:2], list, verb, dry)
			})
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "let the broker check, change nothing")
	return c
}

func (s *session) changeConfigs(ctx context.Context, o owner, named []string, list []setting, verb string, dry bool) error {
	have, err := s.configs(ctx, o)
	if err != nil {
		return err
	}
	var alter []kadm.AlterConfig
	rows := []configChange{}
	for _, kv := range list {
		// Dynamic settings of all brokers are listed only where they are set.
		if o.topic != "" && !slices.ContainsFunc(have, func(r configRow) bool { return r.Name == kv.name }) {
			return unknownSetting(o, kv.name, have)
		}
		row := configChange{Owner: named[0], Name: named[1], Setting: kv.name, Result: verb}
		c := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: kv.name}
		if verb == "set" {
			row.Value, c.Op, c.Value = kv.value, kadm.SetConfig, &kv.value
		}
		if dry {
			row.Result = "would be " + verb
		}
		alter, rows = append(alter, c), append(rows, row)
	}
	done, err := s.alter(ctx, o, alter, dry)
	if err != nil {
		return err
	}
	for _, r := range done {
		var e *Error
		err := explainErr(o.String(), r.Err, r.ErrMessage)
		if errors.As(err, &e) && errors.Is(e, kerr.InvalidConfig) {
			return e.hint("\"millrace config get %s %s --all\" shows the settings and their values.", named[0], named[1])
		}
		if err != nil {
			return err
		}
	}
	return s.print(rows, func(t *textOut) {
		for _, r := range rows {
			text := r.Setting
			if verb == "set" {
				text += "=" + r.Value
			}
			t.line("%v: %s %s", o, text, r.Result)
		}
	})
}

func (s *session) alter(ctx context.Context, o owner, alter []kadm.AlterConfig, dry bool) (kadm.AlterConfigsResponses, error) {
	if o.topic != "" {
		if dry {
			return s.adm.ValidateAlterTopicConfigs(ctx, alter, o.topic)
		}
		return s.adm.AlterTopicConfigs(ctx, alter, o.topic)
	}
	var ids []int32
	if o.broker >= 0 {
		ids = []int32{o.broker}
	}
	if dry {
		return s.adm.ValidateAlterBrokerConfigs(ctx, alter, ids...)
	}
	return s.adm.AlterBrokerConfigs(ctx, alter, ids...)
}
