package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// changeRow is the outcome for one topic.
type changeRow struct {
	Topic             string `json:"topic"`
	ID                string `json:"id,omitempty"`
	Partitions        int    `json:"partitions,omitempty"`
	ReplicationFactor int    `json:"replication_factor,omitempty"`
	Result            string `json:"result"`
	Error             string `json:"error,omitempty"`
}

// printChanges prints the outcomes and returns the first failure.
func (s *session) printChanges(rows []changeRow, errs []error) error {
	err := s.print(some(rows), func(t *textOut) {
		for _, r := range rows {
			if r.Error != "" {
				continue
			}
			size := ""
			if r.Partitions > 0 {
				size = fmt.Sprintf(" (%s", plural(r.Partitions, "partition"))
				if r.ReplicationFactor > 0 {
					size += ", " + plural(r.ReplicationFactor, "replica")
				}
				size += ")"
			}
			t.line("%s: %s%s", r.Topic, r.Result, size)
		}
	})
	return errors.Join(err, firstOf(errs))
}

// firstOf is the first error; the number of the others is told with it.
func firstOf(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	var e *Error
	if !errors.As(errs[0], &e) {
		return errs[0]
	}
	more := *e
	more.Do = strings.TrimPrefix(fmt.Sprintf("%s\n%d more failed; --json shows each.", e.Do, len(errs)-1), "\n")
	return &more
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) topicCreate() *cobra.Command {
	var partitions int32
	var replicas int
	var configs []string
	var ifNot, dry bool
	c := &cobra.Command{
		Use: "create TOPIC...", Short: "Create topics",
		Example: "  millrace topic create orders --partitions 6\n  millrace topic create audit --config retention.ms=604800000 --if-not-exists",
		Args:    takes(1, -1, "the name of a topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if partitions != -1 {
				if err := inRange("--partitions", partitions, 1, 100_000); err != nil {
					return err
				}
			}
			if replicas != -1 {
				if err := inRange("--replication-factor", replicas, 1, 32767); err != nil {
					return err
				}
			}
			set, err := parseSettings("--config", configs, "retention.ms=86400000")
			if err != nil {
				return err
			}
			values := map[string]*string{}
			for _, kv := range set {
				values[kv.name] = &kv.value
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				create := s.adm.CreateTopics
				if dry {
					create = s.adm.ValidateCreateTopics
				}
				done, err := create(ctx, partitions, int16(replicas), values, args...)
				if err != nil {
					return err
				}
				return s.printCreated(args, done, ifNot, dry)
			})
		},
	}
	f := c.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions, 1 to 100000; -1: the broker's default")
	f.IntVarP(&replicas, "replication-factor", "r", -1, "number of replicas, 1 to the number of brokers; -1: the broker's default")
	f.StringArrayVarP(&configs, "config", "c", nil, "a setting NAME=VALUE; may be repeated")
	f.BoolVar(&ifNot, "if-not-exists", false, "a topic that exists already is fine")
	f.BoolVar(&dry, "dry-run", false, "let the broker check, create nothing")
	return c
}

func (s *session) printCreated(names []string, done kadm.CreateTopicResponses, ifNot, dry bool) error {
	var rows []changeRow
	var errs []error
	for _, n := range names {
		r, ok := done[n]
		if !ok {
			r.Err = kerr.UnknownServerError
		}
		row := changeRow{Topic: n, ID: topicID(r.ID), Partitions: int(max(r.NumPartitions, 0)), ReplicationFactor: int(max(r.ReplicationFactor, 0)), Result: "created"}
		switch {
		case r.Err == nil && dry:
			row.Result = "would be created"
		case r.Err == nil:
		case ifNot && errors.Is(r.Err, kerr.TopicAlreadyExists):
			row = changeRow{Topic: n, Result: "exists"}
		default:
			row = changeRow{Topic: n, Result: "failed", Error: codeName(r.Err)}
			errs = append(errs, explainErr(fmt.Sprintf("topic %q was not created", n), r.Err, r.ErrMessage))
		}
		rows = append(rows, row)
	}
	return s.printChanges(rows, errs)
}

func (a *app) topicDelete() *cobra.Command {
	var yes, ifExists bool
	c := &cobra.Command{
		Use: "delete TOPIC...", Short: "Delete topics and all their records",
		Long: "Delete topics and all their records. On a terminal the command asks first.",
		Args: takes(1, -1, "the name of a topic"), ValidArgsFunction: a.completeTopics(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := confirm(cmd, yes, fmt.Sprintf("Delete %s with all records: %s?", plural(len(args), "topic"), joinSome(args, 10))); err != nil {
				return err
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				done, err := s.adm.DeleteTopics(ctx, args...)
				if err != nil {
					return err
				}
				var rows []changeRow
				var errs []error
				for _, n := range args {
					r := done[n]
					row := changeRow{Topic: n, ID: topicID(r.ID), Result: "deleted"}
					switch {
					case r.Err == nil:
					case errors.Is(r.Err, kerr.UnknownTopicOrPartition) && ifExists:
						row.Result = "does not exist"
					case errors.Is(r.Err, kerr.UnknownTopicOrPartition):
						row.Result, row.Error = "failed", codeName(r.Err)
						errs = append(errs, s.noSuchTopic(ctx, n))
					default:
						row.Result, row.Error = "failed", codeName(r.Err)
						errs = append(errs, explainErr(fmt.Sprintf("topic %q was not deleted", n), r.Err, r.ErrMessage))
					}
					rows = append(rows, row)
				}
				return s.printChanges(rows, errs)
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&ifExists, "if-exists", false, "a topic that does not exist is fine")
	return c
}

// confirm asks on a terminal; elsewhere, and with --yes, it agrees.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes || !isTerminal(cmd.InOrStdin()) {
		return nil
	}
	return ask(cmd.InOrStdin(), cmd.ErrOrStderr(), question)
}

func ask(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return failf(ExitFailed, "not confirmed, nothing was changed").hint("Answer y, or give --yes.")
}

func (a *app) topicAddPartitions() *cobra.Command {
	var add, total int
	c := &cobra.Command{
		Use: "add-partitions TOPIC (--add N | --total N)", Short: "Add partitions to a topic",
		Long: "Add partitions to a topic. Keys are spread over the partitions by their number, so\nrecords of one key may go to another partition from then on.",
		Args: takes(1, 1, "the name of a topic"), ValidArgsFunction: a.completeTopics(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			byAdd, byTotal := cmd.Flags().Changed("add"), cmd.Flags().Changed("total")
			if byAdd == byTotal {
				return usagef("give either --add or --total").hint("Usage: %s", cmd.UseLine())
			}
			name, n := "--add", add
			if byTotal {
				name, n = "--total", total
			}
			if err := inRange(name, n, 1, 100_000); err != nil {
				return err
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				topics, err := s.topics(ctx, args[0])
				if err != nil {
					return err
				}
				have := len(topics[0].Partitions)
				want := n
				if byAdd {
					want += have
				}
				if want <= have {
					return usagef("--total: %d is out of range, topic %q has %d partitions already", want, args[0], have).
						hint("The number of partitions can only grow.")
				}
				done, err := s.adm.UpdatePartitions(ctx, want, args[0])
				if err != nil {
					return err
				}
				if r := done[args[0]]; r.Err != nil {
					return explainErr(fmt.Sprintf("topic %q", args[0]), r.Err, r.ErrMessage)
				}
				return s.printChanges([]changeRow{{Topic: args[0], ID: topicID(topics[0].ID), Partitions: want, Result: fmt.Sprintf("%s added", plural(want-have, "partition"))}}, nil)
			})
		},
	}
	c.Flags().IntVar(&add, "add", 0, "how many to add, 1 to 100000")
	c.Flags().IntVar(&total, "total", 0, "how many there shall be, up to 100000")
	return c
}

type deletedRow struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	StartOffset int64  `json:"start_offset"` // after the deletion; -1 where it failed
	Deleted     int64  `json:"deleted"`      // offsets that were given up
	Error       string `json:"error,omitempty"`
}

func (a *app) topicDeleteRecords() *cobra.Command {
	var before, partitions string
	var yes bool
	c := &cobra.Command{
		Use: "delete-records TOPIC --before POSITION", Short: "Delete the oldest records of a topic",
		Long:    "Delete the records before a position, in all partitions or in some. On a terminal the\ncommand asks first. A position is " + positionHelp + ".\n" + timeHelp,
		Example: "  millrace topic delete-records orders --before end\n  millrace topic delete-records orders --before @-24h --partitions 0,3-5",
		Args:    takes(1, 1, "the name of a topic"), ValidArgsFunction: a.completeTopics(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if before == "" {
				return usagef("--before is missing").hint("Usage: %s", cmd.UseLine())
			}
			pos, err := parsePosition("--before", before, time.Now())
			if err != nil {
				return err
			}
			var only []int32
			if partitions != "" {
				if only, err = parsePartitions("--partitions", partitions); err != nil {
					return err
				}
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Delete the records before %s from topic %s?", before, args[0])); err != nil {
				return err
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				return s.deleteRecords(ctx, args[0], pos, only)
			})
		},
	}
	c.Flags().StringVar(&before, "before", "", "delete what is before this position")
	c.Flags().StringVarP(&partitions, "partitions", "p", "", "only these partitions, for example 0,2,5-7")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (s *session) deleteRecords(ctx context.Context, topic string, pos position, only []int32) error {
	topics, err := s.topics(ctx, topic)
	if err != nil {
		return err
	}
	if only, err = choosePartitions(topics[0], only); err != nil {
		return err
	}
	b, err := s.bounds(ctx, topic)
	if err != nil {
		return err
	}
	at, err := s.resolve(ctx, pos, b, topic)
	if err != nil {
		return err
	}
	var offsets kadm.Offsets
	for _, p := range only {
		if pos.kind == atOffset && pos.n > b.end[topic][p].Offset {
			return usagef("--before: %d is out of range, partition %d of %q ends at %d", pos.n, p, topic, b.end[topic][p].Offset).
				hint("\"millrace topic describe %s\" shows the offsets of each partition.", topic)
		}
		offsets.AddOffset(topic, p, at[p], -1)
	}
	done, err := s.adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	rows := []deletedRow{}
	var errs []error
	for _, p := range only {
		r, ok := done.Lookup(topic, p)
		if !ok {
			r.Err = kerr.UnknownServerError
		}
		row := deletedRow{Topic: topic, Partition: p, StartOffset: r.LowWatermark}
		if r.Err != nil {
			row.StartOffset, row.Error = -1, codeName(r.Err)
			errs = append(errs, explainErr(fmt.Sprintf("topic %q, partition %d", topic, p), r.Err, ""))
		} else {
			row.Deleted = max(0, r.LowWatermark-b.start[topic][p].Offset)
		}
		rows = append(rows, row)
	}
	err = s.print(rows, func(t *textOut) {
		var cells [][]string
		for _, r := range rows {
			cells = append(cells, []string{r.Topic, num(r.Partition), num(r.StartOffset), num(r.Deleted), r.Error})
		}
		t.table([]string{"TOPIC", "PARTITION", "START", "DELETED", "ERROR"}, cells)
	})
	return errors.Join(err, firstOf(errs))
}

// choosePartitions checks that the topic has them; none given means all.
func choosePartitions(t kadm.TopicDetail, only []int32) ([]int32, error) {
	if len(only) == 0 {
		return t.Partitions.Numbers(), nil
	}
	for _, p := range only {
		if _, ok := t.Partitions[p]; !ok {
			return nil, failf(ExitNotFound, "topic %q has no partition %d", t.Topic, p).
				hint("It has partitions 0 to %d.", len(t.Partitions)-1)
		}
	}
	return only, nil
}
