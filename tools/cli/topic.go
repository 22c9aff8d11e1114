package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) topicCommand() *cobra.Command {
	return family("topic", "Create, list, describe and change topics", "",
		a.topicCreate(), a.topicList(), a.topicDescribe(), a.topicDelete(), a.topicAddPartitions(), a.topicDeleteRecords())
}

// topicRow is a line of `topic list` and the head of `topic describe`.
type topicRow struct {
	Topic             string `json:"topic"`
	ID                string `json:"id"`
	Internal          bool   `json:"internal"`
	Partitions        int    `json:"partitions"`
	ReplicationFactor int    `json:"replication_factor"`
	Error             string `json:"error,omitempty"`
}

func makeTopicRow(t kadm.TopicDetail) topicRow {
	r := topicRow{
		Topic: t.Topic, ID: topicID(t.ID), Internal: t.IsInternal,
		Partitions: len(t.Partitions), ReplicationFactor: t.Partitions.NumReplicas(),
	}
	if t.Err != nil {
		r.Error = codeName(t.Err)
	}
	return r
}

// topicID writes an id as Kafka's own tools do; empty for none.
func topicID(id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// codeName is the protocol's name of an error.
func codeName(err error) string {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Message
	}
	return err.Error()
}

func (a *app) topicList() *cobra.Command {
	var internal bool
	c := &cobra.Command{
		Use: "list", Short: "List topics", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				topics, err := s.adm.ListTopicsWithInternal(ctx)
				if err != nil {
					return err
				}
				if !internal {
					topics.FilterInternal()
				}
				rows := []topicRow{}
				for _, t := range topics.Sorted() {
					rows = append(rows, makeTopicRow(t))
				}
				return s.print(rows, func(t *textOut) {
					var cells [][]string
					for _, r := range rows {
						cells = append(cells, []string{r.Topic, num(r.Partitions), num(r.ReplicationFactor)})
					}
					t.table([]string{"TOPIC", "PARTITIONS", "REPLICAS"}, cells)
				})
			})
		},
	}
	c.Flags().BoolVar(&internal, "internal", false, "list internal topics too")
	return c
}

type partitionRow struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"` // -1: none
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Offline     []int32 `json:"offline"`
	// StartOffset and EndOffset are missing where the partition did not answer.
	StartOffset *int64 `json:"start_offset"`
	EndOffset   *int64 `json:"end_offset"`
	Error       string `json:"error,omitempty"`
}

type topicDescription struct {
	Topic             string         `json:"topic"`
	ID                string         `json:"id"`
	Internal          bool           `json:"internal"`
	ReplicationFactor int            `json:"replication_factor"`
	Partitions        []partitionRow `json:"partitions"`
	Configs           []configRow    `json:"configs"` // those that are set on the topic
}

func (a *app) topicDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe TOPIC...", Short: "Show partitions, leaders, offsets and settings of topics",
		Args: takes(1, -1, "the name of a topic"), ValidArgsFunction: a.completeTopics(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				topics, err := s.topics(ctx, args...)
				if err != nil {
					return err
				}
				out := []topicDescription{}
				for _, t := range topics {
					d, err := s.describeTopic(ctx, t)
					if err != nil {
						return err
					}
					out = append(out, d)
				}
				return s.print(out, func(t *textOut) { printTopics(t, out) })
			})
		},
	}
}

func (s *session) describeTopic(ctx context.Context, t kadm.TopicDetail) (topicDescription, error) {
	d := topicDescription{
		Topic: t.Topic, ID: topicID(t.ID), Internal: t.IsInternal,
		ReplicationFactor: t.Partitions.NumReplicas(), Partitions: []partitionRow{}, Configs: []configRow{},
	}
	starts, err := s.adm.ListStartOffsets(ctx, t.Topic)
	if err != nil {
		return d, err
	}
	ends, err := s.adm.ListEndOffsets(ctx, t.Topic)
	if err != nil {
		return d, err
	}
	for _, p := range t.Partitions.Sorted() {
		r := partitionRow{
			Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			Replicas: some(p.Replicas), ISR: some(p.ISR), Offline: some(p.OfflineReplicas),
		}
		if l, ok := starts.Lookup(t.Topic, p.Partition); ok && l.Err == nil {
			r.StartOffset = &l.Offset
		}
		if l, ok := ends.Lookup(t.Topic, p.Partition); ok && l.Err == nil {
			r.EndOffset = &l.Offset
		} else if ok {
			r.Error = codeName(l.Err)
		}
		if p.Err != nil {
			r.Error = codeName(p.Err)
		}
		d.Partitions = append(d.Partitions, r)
	}
	configs, err := s.adm.DescribeTopicConfigs(ctx, t.Topic)
	if err != nil {
		return d, err
	}
	for _, rc := range configs {
		if rc.Err != nil {
			return d, explainErr(fmt.Sprintf("settings of topic %q", t.Topic), rc.Err, rc.ErrMessage)
		}
		for _, c := range configRows(rc) {
			if c.source == kmsg.ConfigSourceDynamicTopicConfig {
				d.Configs = append(d.Configs, c)
			}
		}
	}
	return d, nil
}

func printTopics(t *textOut, topics []topicDescription) {
	for i, d := range topics {
		if i > 0 {
			t.line("")
		}
		var set []string
		for _, c := range d.Configs {
			set = append(set, c.Name+"="+c.text())
		}
		t.pairs("Topic", d.Topic, "ID", dash(d.ID), "Partitions", num(len(d.Partitions)),
			"Replicas", num(d.ReplicationFactor), "Settings", dash(strings.Join(set, " ")))
		t.line("")
		var rows [][]string
		for _, p := range d.Partitions {
			leader := num(p.Leader)
			if p.Leader < 0 {
				leader = "none"
			}
			rows = append(rows, []string{num(p.Partition), leader, nums(p.Replicas), nums(p.ISR), optional(p.StartOffset), optional(p.EndOffset), p.Error})
		}
		t.table([]string{"PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END", "ERROR"}, rows)
	}
}

// topics describes the topics of those names, in that order; an unknown one is
// an Error with the nearest names.
func (s *session) topics(ctx context.Context, names ...string) ([]kadm.TopicDetail, error) {
	return s.findTopics(ctx, names, s.noSuchTopic)
}

func (s *session) findTopics(ctx context.Context, names []string, unknown func(context.Context, string) *Error) ([]kadm.TopicDetail, error) {
	found, err := s.adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	var out []kadm.TopicDetail
	seen := map[string]bool{}
	for _, n := range names {
		t, ok := found[n]
		if !ok || errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return nil, unknown(ctx, n)
		}
		if t.Err != nil {
			return nil, explainErr(fmt.Sprintf("topic %q", n), t.Err, "")
		}
		if !seen[n] {
			out = append(out, t)
		}
		seen[n] = true
	}
	return out, nil
}

// unknownTopic offers the nearest names, and how to make the topic.
func (s *session) unknownTopic(ctx context.Context, name string) *Error {
	e := s.noSuchTopic(ctx, name)
	create := fmt.Sprintf("Create it with \"millrace topic create %s\"; ", name)
	near, list, found := strings.Cut(e.Do, "\n")
	if !found {
		return e.hint("%s%s", create, e.Do)
	}
	return e.hint("%s\n%s%s", near, create, list)
}

// noSuchTopic offers the nearest names.
func (s *session) noSuchTopic(ctx context.Context, name string) *Error {
	var names []string
	if all, err := s.adm.ListTopicsWithInternal(ctx); err == nil {
		names = all.Names()
	}
	return failf(ExitNotFound, "there is no topic %q", name).
		hint("%s", strings.TrimPrefix(didYouMean(name, names, "")+"\n\"millrace topic list\" shows the topics.", "\n"))
}
