package cli

import "github.com/spf13/cobra"

// newDatasetsCommand groups what makes and describes workloads and traces.
func newDatasetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "datasets",
		Short: "Make workloads and synthetic traces, list what there is",
		Long:  "List what there is and what can be made (as list does), say more of it, check it,\nmake it.",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return runDatasetsList(c.OutOrStdout(), "table") },
	}
	c.AddCommand(newDatasetsMakeCommand())
	c.AddCommand(newDatasetsFitCommand())
	c.AddCommand(newDatasetsListCommand(), newDatasetsDescribeCommand(), newDatasetsVerifyCommand(), newDatasetsExtractCommand(), newDatasetsCardCommand())
	return c
}

// newDatasetsMakeCommand groups the makers, one a benchmark.
func newDatasetsMakeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "make",
		Short: "Make prompts or a synthetic trace",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newDatasetsMakeLongbenchCommand(), newDatasetsMakeLongbenchV2Command(), newDatasetsMakeOfflineCommand())
	c.AddCommand(newDatasetsMakeRulerCommand())
	c.AddCommand(newDatasetsMakeSyntheticCommand())
	return c
}
