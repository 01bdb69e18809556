package cli_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// tutorialPart matches a shell block, or a Go block after the name of its file.
var tutorialPart = regexp.MustCompile("(?s)(?:`(policies/mine/[a-z_]+\\.go)`:\n\n```go|```sh)\n(.*?)```")

// TestTutorial follows the tutorial in a copy of the repository: it writes each named Go
// file and runs each shell block. The last block must find the policy better than LRU.
func TestTutorial(t *testing.T) {
	t.Parallel()
	root := repository(t)
	text, err := os.ReadFile(filepath.Join(root, "policies", "TUTORIAL.md"))
	fatal.If(t, err)
	dir := t.TempDir()
	copyTree(t, root, dir)
	var output string
	parts := tutorialPart.FindAllStringSubmatch(string(text), -1)
	for _, part := range parts {
		if name, content := part[1], part[2]; name != "" {
			fatal.If(t, os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(content), 0o666))
			continue
		}
		shell := exec.Command("bash", "-euo", "pipefail", "-c", part[2])
		shell.Dir, shell.Env = dir, append(os.Environ(), "GOFLAGS=-trimpath", "GOPROXY=off", "GOWORK=off")
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s%v\n%s", part[2], err, out)
		}
		output = string(out)
	}
	if len(parts) != 8 {
		t.Errorf("the tutorial has %d blocks, expected 8", len(parts))
	}
	if pooled := regexp.MustCompile(`(?m)^ pooled .* mine$`); !pooled.MatchString(output) {
		t.Errorf("the last block does not find mine better than lru:\n%s", output)
	}
}

// copyTree copies the Go files of a repository and the files that they embed, and links to its
// corpus. It leaves out hidden folders and results.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."), name == "bin", name == "results":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case name == filepath.Join("datasets", "corpus"):
			if err := os.Symlink(path, filepath.Join(to, name)); err != nil {
				return err
			}
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o777)
		case !d.Type().IsRegular(), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o666)
	})
	fatal.If(t, err)
}
