package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/policies/all"
)

// Every command has a next one or is listed as one that has none. Neither list has others.
func TestEveryCommandHasNext(t *testing.T) {
	found := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		name := commandName(c)
		found[name] = true
		if _, ok := nextCommands[name]; ok == slices.Contains(lastCommands, name) {
			t.Errorf("%q is in nextCommands: %v, in lastCommands: %v; expected one of them", name, ok, !ok)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(all.Table()))
	for name := range nextCommands {
		if !found[name] {
			t.Errorf("there is no command %q", name)
		}
	}
	for _, name := range lastCommands {
		if !found[name] {
			t.Errorf("there is no command %q", name)
		}
	}
}
