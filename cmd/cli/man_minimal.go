//go:build minimal

package cli

// manCommands returns no command: see man.go.
func manCommands() []command { return nil }
