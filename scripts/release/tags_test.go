package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release is built with the tags of make build.
func TestTags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nTAGS := "+tags+"\n") {
		t.Errorf("the Makefile does not set TAGS := %s", tags)
	}
}
