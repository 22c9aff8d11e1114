package main

import (
	"io"

	"github.com/spf13/cobra"

	"millrace/core/config"
	"millrace/net/admin"
)

//go:generate sh -c "go run . config docs > ../../docs/CONFIG.md"
//go:generate sh -c "go run . config docs --metrics > ../../docs/METRICS.md"

// docsCommand prints the documentation that is generated from tables.
func docsCommand() *cobra.Command {
	var metrics bool
	c := &cobra.Command{
		Use:           "docs",
		Short:         "Print the documentation of all broker and topic settings (Markdown)",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := config.Markdown()
			if metrics {
				text = admin.Markdown()
			}
			_, err := io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&metrics, "metrics", false, "print the documentation of the metrics instead")
	return c
}
