package bundled_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace"
)

// README.md describes every trace. Other tests check the traces and the catalogue.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	fatal.If(t, err)
	paths, err := filepath.Glob("*.parquet")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, path := range paths {
		if row := row(t, path); !strings.Contains(string(text), row) {
			t.Errorf("README.md lacks the row %q", row)
		}
	}
}

// row returns a trace's row of the table, without columns that the trace does not determine. Its
// form is file | prompt | steps (windows) | streams.
func row(t *testing.T, path string) string {
	t.Helper()
	f, err := trace.Open(path)
	fatal.If(t, err)
	defer f.Close()
	s := f.Streams()[0]
	return fmt.Sprintf("| `%s` | %d | %d (%d) | %d", path, s.PromptLen, s.Rows-s.Windows, s.Windows, len(f.Streams()))
}
