package operator

import "fmt"

// listed returns a line of a table for help.
func listed(usage, summary string) string { return fmt.Sprintf("  %-27s %s", usage, summary) }
