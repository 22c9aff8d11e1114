package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Commands returns the client commands, to be added to the root command of the
// binary. version is what `millrace version` prints.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{
		versionCommand(version),
	}
}

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "millrace "+version)
			return err
		},
	}
}
