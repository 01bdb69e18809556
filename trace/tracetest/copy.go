// Package tracetest helps tests of several packages: copies of traces, and programs of
// others that run in Python.
package tracetest

import (
	"os"
	"path/filepath"
	"testing"
)

// Copy writes a copy of a trace under a name of its own and returns its path.
func Copy(t testing.TB, path, name string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(copied, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return copied
}
