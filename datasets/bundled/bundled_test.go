package bundled_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/trace"
)

// README.md tells every trace's digest and size, and the traces are sound.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := strings.ReplaceAll(string(text), ",", "")
	paths, err := filepath.Glob("*.parquet")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, path := range paths {
		v, err := trace.Validate(path, func(e *trace.Error) bool { t.Error(e); return true })
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []string{fmt.Sprintf(`%s.*\| %d \|`, path, info.Size()), path + ".*" + v.Digest} {
			if !regexp.MustCompile(row).MatchString(readme) {
				t.Errorf("README.md lacks %q", row)
			}
		}
	}
}
