package papers_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/replay/reproduce/papers"
)

// Names are unique, and the README has a line for each paper.
func TestNames(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	fatal.If(t, err)
	seen := map[string]bool{"all": true} // reserved by the command
	for i, name := range papers.Names(papers.Known()) {
		if seen[name] {
			t.Errorf("the name %s is taken", name)
		}
		seen[name] = true
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("replay/reproduce/README.md has no line for %s", name)
		}
		if p := papers.Known()[i]; p.Citation == "" || p.Study == nil {
			t.Errorf("paper %s has no citation or no study", name)
		}
	}
}
