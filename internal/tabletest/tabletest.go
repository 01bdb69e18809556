// Package tabletest holds tables of documents current.
package tabletest

import (
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// InREADME finds a Markdown table in README.md of the working directory. If it is not there, update replaces
// the table with the same header. Otherwise the test ends, and the message names the command that updates.
func InREADME(t *testing.T, want string, update bool, command string) {
	t.Helper()
	data, err := os.ReadFile("README.md")
	fatal.If(t, err)
	page, want := string(data), strings.TrimSpace(want)+"\n"
	if strings.Contains(page, want) {
		return
	}
	if !update {
		t.Fatalf("README.md lacks this table: run %s\n%s", command, want)
	}
	header, _, _ := strings.Cut(want, "\n")
	before, after, found := strings.Cut(page, header)
	_, after, more := strings.Cut(after, "\n\n")
	if !found || !more {
		t.Fatalf("README.md has no table with the header %s", header)
	}
	fatal.If(t, os.WriteFile("README.md", []byte(before+want+"\n"+after), 0o644))
}
