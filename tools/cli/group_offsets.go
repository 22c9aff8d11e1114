package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// target says where reset-offsets moves to.
type target struct {
	position
	shift   bool // n is relative to the committed offset
	current bool
}

type resetFlags struct {
	earliest, latest, current  bool
	offset, shift              int64
	datetime                   string
	duration                   time.Duration
	topics                     []string
	allTopics, execute, dryRun bool
}

func (a *app) groupResetOffsets() *cobra.Command {
	var f resetFlags
	c := &cobra.Command{
		Use:   "reset-offsets GROUP (--topic TOPIC[:PARTITIONS]... | --all-topics) --to-...",
		Short: "Move the committed offsets of a group",
		Long: "Move the committed offsets of a group that has no running members. Without --execute the\n" +
			"command only shows what it would do. Offsets are kept within what a partition holds.\n\n" + timeHelp,
		Example: "  millrace group reset-offsets billing --topic orders --to-earliest\n" +
			"  millrace group reset-offsets billing --topic orders:0,2 --shift-by -100 --execute\n" +
			"  millrace group reset-offsets billing --all-topics --to-datetime \"2026-01-31 08:00:00\" --execute",
		Args: takes(1, 1, "the name of a group"), ValidArgsFunction: a.completeGroups(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := f.target(cmd, time.Now())
			if err != nil {
				return err
			}
			if f.allTopics == (len(f.topics) > 0) {
				return usagef("give either --topic or --all-topics").hint("Usage: %s", cmd.UseLine())
			}
			if f.execute && f.dryRun {
				return usagef("give either --execute or --dry-run")
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				return s.resetOffsets(ctx, args[0], f.topics, to, f.execute)
			})
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.earliest, "to-earliest", false, "to the first record of each partition")
	fl.BoolVar(&f.latest, "to-latest", false, "past the last record of each partition")
	fl.BoolVar(&f.current, "to-current", false, "to where the group is: keeps offsets that would expire")
	fl.Int64Var(&f.offset, "to-offset", 0, "to this offset, 0 or more")
	fl.StringVar(&f.datetime, "to-datetime", "", "to the first record at or after this time")
	fl.DurationVar(&f.duration, "by-duration", 0, "to the first record of the last so much time, for example 36h")
	fl.Int64Var(&f.shift, "shift-by", 0, "forward by so many records, back if negative")
	fl.StringArrayVarP(&f.topics, "topic", "t", nil, "a topic, or some partitions of it as TOPIC:0,2-4; may be repeated")
	fl.BoolVar(&f.allTopics, "all-topics", false, "all topics that the group has committed offsets of")
	fl.BoolVar(&f.execute, "execute", false, "do it")
	fl.BoolVar(&f.dryRun, "dry-run", false, "only show it (the default)")
	a.completeFlag(c, "topic", a.completeTopics(-1))
	return c
}

func (f *resetFlags) target(cmd *cobra.Command, now time.Time) (target, error) {
	var given []string
	for _, n := range []string{"to-earliest", "to-latest", "to-current", "to-offset", "to-datetime", "by-duration", "shift-by"} {
		if cmd.Flags().Changed(n) {
			given = append(given, n)
		}
	}
	if len(given) != 1 {
		got := "none is given"
		if len(given) > 1 {
			got = "got --" + strings.Join(given, ", --")
		}
		return target{}, usagef("say once where to move: %s", got).
			hint("One of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, --by-duration, --shift-by.")
	}
	switch given[0] {
	case "to-earliest":
		return target{position: position{kind: atStart}}, nil
	case "to-latest":
		return target{position: position{kind: atEnd}}, nil
	case "to-current":
		return target{current: true}, nil
	case "to-offset":
		if f.offset < 0 {
			return target{}, usagef("--to-offset: %d is out of range, it must be 0 or more", f.offset)
		}
		return target{position: position{kind: atOffset, n: f.offset}}, nil
	case "to-datetime":
		ms, err := parseTime(f.datetime, now)
		if err != nil {
			return target{}, usagef("--to-datetime: %v", err).hint("%s", timeHelp)
		}
		return target{position: position{kind: atTime, n: ms}}, nil
	case "by-duration":
		if f.duration <= 0 {
			return target{}, usagef("--by-duration: %v is out of range, it must be more than 0", f.duration)
		}
		return target{position: position{kind: atTime, n: now.Add(-f.duration).UnixMilli()}}, nil
	}
	return target{position: position{n: f.shift}, shift: true}, nil
}

type resetRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Old       *int64 `json:"old"` // missing where nothing was committed
	New       int64  `json:"new"`
	Error     string `json:"error,omitempty"`
}

func (s *session) resetOffsets(ctx context.Context, group string, specs []string, to target, execute bool) error {
	d, err := s.describeGroup(ctx, group)
	var known *Error
	if errors.As(err, &known) && known.Code == ExitNotFound && len(specs) > 0 {
		err = nil // offsets of a group that never ran: it starts there
	}
	if err != nil {
		return err
	}
	if len(d.Members) > 0 {
		return failf(ExitFailed, "group %q has %s, its offsets cannot be moved", group, plural(len(d.Members), "running member")).
			hint("Stop them first: \"millrace group describe %s\" shows them.", group)
	}
	commits, err := s.adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return err
	}
	chosen, err := s.chooseOffsets(ctx, group, specs, commits)
	if err != nil {
		return err
	}
	var rows []resetRow
	for _, topic := range sortedKeys(chosen) {
		more, err := s.planReset(ctx, topic, chosen[topic], commits, to)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	var failed []error
	if execute {
		failed = s.commitReset(ctx, group, rows)
	}
	out := struct {
		Group    string     `json:"group"`
		Executed bool       `json:"executed"`
		Offsets  []resetRow `json:"offsets"`
	}{group, execute, some(rows)}
	err = s.print(out, func(t *textOut) {
		var cells [][]string
		for _, r := range rows {
			cells = append(cells, []string{r.Topic, num(r.Partition), optional(r.Old), num(r.New), r.Error})
		}
		t.table([]string{"TOPIC", "PARTITION", "OLD", "NEW", "ERROR"}, cells)
		if !execute {
			fmt.Fprintln(s.err, "Nothing was changed. Add --execute to do it.")
		}
	})
	return errors.Join(err, firstOf(failed))
}

// chooseOffsets turns --topic into partitions per topic; no spec means all that
// the group has committed.
func (s *session) chooseOffsets(ctx context.Context, group string, specs []string, commits kadm.OffsetResponses) (map[string][]int32, error) {
	chosen := map[string][]int32{}
	for _, spec := range specs {
		topic, list, some := strings.Cut(spec, ":")
		var only []int32
		var err error
		if some {
			if only, err = parsePartitions("--topic", list); err != nil {
				return nil, err
			}
		}
		found, err := s.topics(ctx, topic)
		if err != nil {
			return nil, err
		}
		if only, err = choosePartitions(found[0], only); err != nil {
			return nil, err
		}
		chosen[topic] = append(chosen[topic], only...)
	}
	if len(specs) == 0 {
		for _, c := range commits.Sorted() {
			if c.At >= 0 {
				chosen[c.Topic] = append(chosen[c.Topic], c.Partition)
			}
		}
		if len(chosen) == 0 {
			return nil, failf(ExitNotFound, "group %q has committed no offsets", group).hint("Name the topics with --topic.")
		}
	}
	for t, ps := range chosen {
		slices.Sort(ps)
		chosen[t] = slices.Compact(ps)
	}
	return chosen, nil
}

func (s *session) planReset(ctx context.Context, topic string, partitions []int32, commits kadm.OffsetResponses, to target) ([]resetRow, error) {
	b, err := s.bounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	var at map[int32]int64
	if !to.shift && !to.current {
		if at, err = s.resolve(ctx, to.position, b, topic); err != nil {
			return nil, err
		}
	}
	var rows []resetRow
	for _, p := range partitions {
		r := resetRow{Topic: topic, Partition: p}
		start, end := b.start[topic][p].Offset, b.end[topic][p].Offset
		from := start
		if c, ok := commits.Lookup(topic, p); ok && c.At >= 0 {
			r.Old, from = &c.At, c.At
		}
		switch {
		case to.shift:
			// Between the ends whatever the sum is: it cannot overflow then.
			r.New = from + min(max(to.n, start-from), end-from)
		case to.current:
			r.New = from
		default:
			r.New = at[p]
		}
		r.New = min(max(r.New, start), end)
		rows = append(rows, r)
	}
	return rows, nil
}

func (s *session) commitReset(ctx context.Context, group string, rows []resetRow) []error {
	var offsets kadm.Offsets
	for _, r := range rows {
		offsets.AddOffset(r.Topic, r.Partition, r.New, -1)
	}
	done, err := s.adm.CommitOffsets(ctx, group, offsets)
	var errs []error
	for i := range rows {
		r := &rows[i]
		e := err
		if c, ok := done.Lookup(r.Topic, r.Partition); ok {
			e = c.Err
		} else if e == nil {
			e = kerr.UnknownServerError
		}
		if e != nil {
			r.Error = codeName(e)
			errs = append(errs, explainErr(fmt.Sprintf("offset of topic %q, partition %d", r.Topic, r.Partition), e, ""))
		}
	}
	return errs
}

type deletedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Result    string `json:"result"`
	Error     string `json:"error,omitempty"`
}

func (a *app) groupDeleteOffsets() *cobra.Command {
	var specs []string
	var yes bool
	c := &cobra.Command{
		Use: "delete-offsets GROUP --topic TOPIC[:PARTITIONS]...", Short: "Forget committed offsets of a group",
		Long: "Forget committed offsets of a group, of topics that none of its running members reads. On\na terminal the command asks first.",
		Args: takes(1, 1, "the name of a group"), ValidArgsFunction: a.completeGroups(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(specs) == 0 {
				return usagef("--topic is missing").hint("Usage: %s", cmd.UseLine())
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Forget the offsets that group %s has committed for %s?", args[0], joinSome(specs, 10))); err != nil {
				return err
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error { return s.deleteOffsets(ctx, args[0], specs) })
		},
	}
	c.Flags().StringArrayVarP(&specs, "topic", "t", nil, "a topic, or some partitions of it as TOPIC:0,2-4; may be repeated")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	a.completeFlag(c, "topic", a.completeTopics(-1))
	return c
}

func (s *session) deleteOffsets(ctx context.Context, group string, specs []string) error {
	if _, err := s.describeGroup(ctx, group); err != nil {
		return err
	}
	chosen, err := s.chooseOffsets(ctx, group, specs, nil)
	if err != nil {
		return err
	}
	var set kadm.TopicsSet
	for t, ps := range chosen {
		set.Add(t, ps...)
	}
	done, err := s.adm.DeleteOffsets(ctx, group, set)
	if err != nil {
		return explainErr(fmt.Sprintf("group %q", group), err, "")
	}
	rows := []deletedOffset{}
	var errs []error
	for _, t := range sortedKeys(chosen) {
		for _, p := range chosen[t] {
			row := deletedOffset{Topic: t, Partition: p, Result: "deleted"}
			e, ok := done.Lookup(t, p)
			if !ok {
				e = kerr.UnknownServerError
			}
			if e != nil {
				row.Result, row.Error = "failed", codeName(e)
				errs = append(errs, explainErr(fmt.Sprintf("offset of topic %q, partition %d", t, p), e, ""))
			}
			rows = append(rows, row)
		}
	}
	err = s.print(rows, func(t *textOut) {
		var cells [][]string
		for _, r := range rows {
			cells = append(cells, []string{r.Topic, num(r.Partition), r.Result, r.Error})
		}
		t.table([]string{"TOPIC", "PARTITION", "RESULT", "ERROR"}, cells)
	})
	return errors.Join(err, firstOf(errs))
}
