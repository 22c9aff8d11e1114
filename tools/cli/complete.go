package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds what a press of the tab key may wait for.
const completionTimeout = 1500 * time.Millisecond

type completer = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective)

// completeTopics completes names of topics, for up to n arguments (n < 0: any
// number). A broker that does not answer completes nothing.
func (a *app) completeTopics(n int) completer {
	return a.completeNames(n, func(ctx context.Context, s *session) ([]string, error) {
		topics, err := s.adm.ListTopics(ctx)
		return topics.Names(), err
	})
}

// completeGroups is completeTopics for groups.
func (a *app) completeGroups(n int) completer {
	return a.completeNames(n, func(ctx context.Context, s *session) ([]string, error) {
		groups, err := s.adm.ListGroups(ctx)
		return groups.Groups(), err
	})
}

func (a *app) completeNames(n int, list func(context.Context, *session) ([]string, error)) completer {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if n >= 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		s, err := newSession(a, cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.close()
		if s.connect(ctx, nil) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := list(ctx, s)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, prefix) || slices.Contains(args, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag registers a completion for a flag that c has.
func (a *app) completeFlag(c *cobra.Command, flag string, fn completer) {
	if err := c.RegisterFlagCompletionFunc(flag, fn); err != nil {
		panic("BUG: " + err.Error())
	}
}

// words completes a flag with fixed words.
func words(list ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}
