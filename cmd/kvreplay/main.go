// Command kvreplay replays recorded Top-K selections through KV-cache policies.
package main

import (
	"os"

	"github.com/kvreplay/kvreplay/cmd/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
