package replay

import (
	"os"
	"path/filepath"
	"testing"
)

// damageCells cuts every kept cell in half.
func damageCells(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "cells", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("kept cells %v, %v", files, err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()/2); err != nil {
			t.Fatal(err)
		}
	}
}
