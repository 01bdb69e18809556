// Package tabletest holds tables of documents current.
package tabletest

import (
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// InREADME is In for README.md.
func InREADME(t *testing.T, want string, update bool, command string) {
	t.Helper()
	In(t, "README.md", want, update, command)
}

// In finds a Markdown table in a file. If it is not there, update replaces the table with the same header.
// Otherwise the test ends, and the message names the command that updates.
func In(t *testing.T, file, want string, update bool, command string) {
	t.Helper()
	data, err := os.ReadFile(file)
	fatal.If(t, err)
	page, want := string(data), strings.TrimSpace(want)+"\n"
	if strings.Contains(page, want) {
		return
	}
	if !update {
		t.Fatalf("%s lacks this table: run %s\n%s", file, command, want)
	}
	header, _, _ := strings.Cut(want, "\n")
	before, after, found := strings.Cut(page, header)
	_, after, more := strings.Cut(after, "\n\n")
	if !found || !more {
		t.Fatalf("%s has no table with the header %s", file, header)
	}
	fatal.If(t, os.WriteFile(file, []byte(before+want+"\n"+after), 0o644))
}
