package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// A release is built with the tags of make build.
func TestTags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	fatal.If(t, err)
	if !strings.Contains(string(text), "\nTAGS := "+tags+"\n") {
		t.Errorf("the Makefile does not set TAGS := %s", tags)
	}
}
