// Command example is kvreplay with one more policy, built from a separate module. It differs from
// kvreplay by one line in the policy table.
package main

import (
	"os"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/policies/all"

	"example.com/kvreplay-mru/mru"
)

func main() {
	table := policies.NewTable(append(all.Table(), mru.Entry)...)
	os.Exit(cli.Main(table, os.Args[1:], os.Stdout, os.Stderr))
}
