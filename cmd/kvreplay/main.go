// Command kvreplay replays recorded Top-K selections through KV-cache policies.
package main

import (
	"os"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/policies/all"
)

func main() { os.Exit(cli.Main(all.Table(), os.Args[1:], os.Stdout, os.Stderr)) }
