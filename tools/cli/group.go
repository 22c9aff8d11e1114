package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (a *app) groupCommand() *cobra.Command {
	return family("group", "List, describe and change consumer groups and their offsets", "",
		a.groupList(), a.groupDescribe(), a.groupDelete(), a.groupResetOffsets(), a.groupDeleteOffsets())
}

type groupRow struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Type        string `json:"type"`     // classic, consumer, share; empty where the broker does not say
	Protocol    string `json:"protocol"` // consumer, connect, ...
	Coordinator int32  `json:"coordinator"`
}

func (a *app) groupList() *cobra.Command {
	var states []string
	c := &cobra.Command{
		Use: "list", Short: "List groups", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				groups, err := s.adm.ListGroups(ctx, states...)
				if err != nil {
					return err
				}
				rows := []groupRow{}
				for _, g := range groups.Sorted() {
					rows = append(rows, groupRow{g.Group, g.State, g.GroupType, g.ProtocolType, g.Coordinator})
				}
				return s.print(rows, func(t *textOut) {
					var cells [][]string
					for _, r := range rows {
						cells = append(cells, []string{r.Group, dash(r.State), dash(r.Type), dash(r.Protocol), num(r.Coordinator)})
					}
					t.table([]string{"GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"}, cells)
				})
			})
		},
	}
	c.Flags().StringSliceVar(&states, "state", nil, "only groups in these states, for example Stable,Empty")
	return c
}

type groupMember struct {
	Member     string           `json:"member"`
	Instance   string           `json:"instance,omitempty"` // of a static member
	Client     string           `json:"client"`
	Host       string           `json:"host"`
	Partitions []topicPartition `json:"partitions"`
}

type topicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// groupOffset is one partition that a group has committed or reads. Numbers are
// missing where they are not known.
type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"`
	Start     *int64 `json:"start_offset"`
	End       *int64 `json:"end_offset"`
	Lag       *int64 `json:"lag"`
	Member    string `json:"member,omitempty"`
	Error     string `json:"error,omitempty"`
}

type brokerAddr struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

func (b brokerAddr) String() string {
	return fmt.Sprintf("%d (%s)", b.ID, net.JoinHostPort(b.Host, num(b.Port)))
}

type groupDescription struct {
	Group       string        `json:"group"`
	State       string        `json:"state"`
	Type        string        `json:"type"`
	Assignor    string        `json:"assignor"`
	Coordinator brokerAddr    `json:"coordinator"`
	Lag         int64         `json:"lag"` // sum of what is known
	Members     []groupMember `json:"members"`
	Offsets     []groupOffset `json:"offsets"`
}

func (a *app) groupDescribe() *cobra.Command {
	return &cobra.Command{
		Use: "describe GROUP...", Short: "Show members, committed offsets and lag of groups",
		Args: takes(1, -1, "the name of a group"), ValidArgsFunction: a.completeGroups(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				out := []groupDescription{}
				for _, g := range args {
					d, err := s.describeGroup(ctx, g)
					if err != nil {
						return err
					}
					if d.Offsets, err = s.groupOffsets(ctx, d); err != nil {
						return err
					}
					for _, o := range d.Offsets {
						if o.Lag != nil {
							d.Lag += *o.Lag
						}
					}
					out = append(out, d)
				}
				return s.print(out, func(t *textOut) { printGroups(t, out) })
			})
		},
	}
}

// describeGroup finds out state and members, of a classic group or of one of the
// consumer protocol (KIP-848), which an older broker does not know.
func (s *session) describeGroup(ctx context.Context, name string) (groupDescription, error) {
	d := groupDescription{Group: name, Type: "classic", Members: []groupMember{}, Offsets: []groupOffset{}}
	classic, err := s.adm.DescribeGroups(ctx, name)
	if err != nil {
		return d, err
	}
	g, ok := classic[name]
	switch {
	case !ok, errors.Is(g.Err, kerr.GroupIDNotFound), g.Err == nil && g.State == "Dead":
		return s.describeConsumerGroup(ctx, d)
	case g.Err != nil:
		return d, explainErr(fmt.Sprintf("group %q", name), g.Err, g.ErrMessage)
	}
	d.State, d.Assignor, d.Coordinator = g.State, g.Protocol, addrOf(g.Coordinator)
	for _, m := range g.Members {
		row := groupMember{Member: m.MemberID, Client: m.ClientID, Host: m.ClientHost, Partitions: []topicPartition{}}
		if m.InstanceID != nil {
			row.Instance = *m.InstanceID
		}
		if as, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range as.Topics {
				for _, p := range t.Partitions {
					row.Partitions = append(row.Partitions, topicPartition{t.Topic, p})
				}
			}
		}
		sortPartitions(row.Partitions)
		d.Members = append(d.Members, row)
	}
	return d, nil
}

func (s *session) describeConsumerGroup(ctx context.Context, d groupDescription) (groupDescription, error) {
	groups, err := s.adm.DescribeConsumerGroups(ctx, d.Group)
	g, ok := groups[d.Group]
	if err != nil || !ok || g.Err != nil {
		// UNSUPPORTED_VERSION and any other refusal: the broker has no such
		// group under either protocol.
		return d, s.unknownGroup(ctx, d.Group)
	}
	d.Type, d.State, d.Assignor, d.Coordinator = "consumer", g.State, g.AssignorName, addrOf(g.Coordinator)
	for _, m := range g.Members {
		row := groupMember{Member: m.MemberID, Client: m.ClientID, Host: m.ClientHost, Partitions: []topicPartition{}}
		if m.InstanceID != nil {
			row.Instance = *m.InstanceID
		}
		for _, tp := range m.Assignment.Sorted() {
			for _, p := range tp.Partitions {
				row.Partitions = append(row.Partitions, topicPartition{tp.Topic, p})
			}
		}
		sortPartitions(row.Partitions)
		d.Members = append(d.Members, row)
	}
	return d, nil
}

func sortPartitions(ps []topicPartition) {
	slices.SortFunc(ps, func(a, b topicPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
}

func addrOf(b kadm.BrokerDetail) brokerAddr { return brokerAddr{b.NodeID, b.Host, b.Port} }

// groupOffsets lists what the group has committed and what its members hold,
// with the lag of each.
func (s *session) groupOffsets(ctx context.Context, d groupDescription) ([]groupOffset, error) {
	commits, err := s.adm.FetchOffsets(ctx, d.Group)
	if err != nil {
		return nil, err
	}
	owner := map[topicPartition]string{}
	var all []topicPartition
	for _, m := range d.Members {
		for _, tp := range m.Partitions {
			owner[tp] = m.Member
			all = append(all, tp)
		}
	}
	for _, c := range commits.Sorted() {
		tp := topicPartition{c.Topic, c.Partition}
		if _, held := owner[tp]; !held {
			all = append(all, tp)
		}
	}
	sortPartitions(all)
	var topics []string
	for _, tp := range all {
		topics = append(topics, tp.Topic)
	}
	var b bounds
	if topics = slices.Compact(topics); len(topics) > 0 {
		if b.start, err = s.adm.ListStartOffsets(ctx, topics...); err != nil {
			return nil, err
		}
		if b.end, err = s.adm.ListEndOffsets(ctx, topics...); err != nil {
			return nil, err
		}
	}
	out := []groupOffset{}
	for _, tp := range all {
		out = append(out, makeGroupOffset(tp, owner[tp], commits, b))
	}
	return out, nil
}

func makeGroupOffset(tp topicPartition, member string, commits kadm.OffsetResponses, b bounds) groupOffset {
	o := groupOffset{Topic: tp.Topic, Partition: tp.Partition, Member: member}
	if c, ok := commits.Lookup(tp.Topic, tp.Partition); ok && c.Err == nil && c.At >= 0 {
		o.Committed = &c.At
	} else if ok && c.Err != nil {
		o.Error = codeName(c.Err)
	}
	start, ok1 := b.start.Lookup(tp.Topic, tp.Partition)
	end, ok2 := b.end.Lookup(tp.Topic, tp.Partition)
	if !ok1 || !ok2 {
		o.Error = kerr.UnknownTopicOrPartition.Message
		return o
	}
	if err := errors.Join(start.Err, end.Err); err != nil {
		o.Error = codeName(err)
		return o
	}
	o.Start, o.End = &start.Offset, &end.Offset
	from := start.Offset
	if o.Committed != nil {
		from = max(from, *o.Committed)
	}
	lag := max(0, end.Offset-from)
	o.Lag = &lag
	return o
}

func printGroups(t *textOut, groups []groupDescription) {
	for i, d := range groups {
		if i > 0 {
			t.line("")
		}
		t.pairs("Group", d.Group, "State", dash(d.State), "Type", d.Type, "Assignor", dash(d.Assignor),
			"Coordinator", d.Coordinator.String(), "Members", num(len(d.Members)), "Lag", num(d.Lag))
		if len(d.Members) > 0 {
			t.line("")
			var rows [][]string
			for _, m := range d.Members {
				rows = append(rows, []string{m.Member, dash(m.Instance), dash(m.Client), dash(m.Host), holdings(m.Partitions)})
			}
			t.table([]string{"MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"}, rows)
		}
		if len(d.Offsets) > 0 {
			t.line("")
			var rows [][]string
			for _, o := range d.Offsets {
				rows = append(rows, []string{o.Topic, num(o.Partition), optional(o.Committed), optional(o.End), optional(o.Lag), dash(o.Member), o.Error})
			}
			t.table([]string{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "ERROR"}, rows)
		}
	}
}

// holdings writes sorted partitions as orders:0,1 audit:3.
func holdings(ps []topicPartition) string {
	var b strings.Builder
	for i, p := range ps {
		switch {
		case i > 0 && ps[i-1].Topic == p.Topic:
			fmt.Fprintf(&b, ",%d", p.Partition)
		case i > 0:
			fmt.Fprintf(&b, " %s:%d", p.Topic, p.Partition)
		default:
			fmt.Fprintf(&b, "%s:%d", p.Topic, p.Partition)
		}
	}
	return dash(b.String())
}

func (s *session) unknownGroup(ctx context.Context, name string) *Error {
	var names []string
	if all, err := s.adm.ListGroups(ctx); err == nil {
		names = all.Groups()
	}
	return failf(ExitNotFound, "there is no group %q", name).
		hint("%s", strings.TrimPrefix(didYouMean(name, names, "")+"\n\"millrace group list\" shows the groups.", "\n"))
}

type groupChange struct {
	Group  string `json:"group"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

func (a *app) groupDelete() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "delete GROUP...", Short: "Delete groups that have no members, with their offsets",
		Long: "Delete groups that have no members, with their offsets. On a terminal the command asks\nfirst.",
		Args: takes(1, -1, "the name of a group"), ValidArgsFunction: a.completeGroups(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := confirm(cmd, yes, fmt.Sprintf("Delete %s with committed offsets: %s?", plural(len(args), "group"), joinSome(args, 10))); err != nil {
				return err
			}
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				done, err := s.adm.DeleteGroups(ctx, args...)
				if err != nil {
					return err
				}
				rows := []groupChange{}
				var errs []error
				for _, g := range args {
					row := groupChange{Group: g, Result: "deleted"}
					r, ok := done[g]
					if !ok {
						r.Err = kerr.UnknownServerError
					}
					if r.Err != nil {
						row.Result, row.Error = "failed", codeName(r.Err)
						e := explainErr(fmt.Sprintf("group %q was not deleted", g), r.Err, "")
						if errors.Is(r.Err, kerr.GroupIDNotFound) {
							e = s.unknownGroup(ctx, g)
						}
						errs = append(errs, e)
					}
					rows = append(rows, row)
				}
				err = s.print(rows, func(t *textOut) {
					for _, r := range rows {
						if r.Error == "" {
							t.line("%s: %s", r.Group, r.Result)
						}
					}
				})
				return errors.Join(err, firstOf(errs))
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}
