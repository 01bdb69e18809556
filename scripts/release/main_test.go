package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Two releases of a commit have the same bytes. The archive has a program that states its version,
// manual pages and completions.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program twice")
	}
	t.Chdir(filepath.Join("..", ".."))
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("no clone with git")
	}
	var sums [2]string
	var out string
	for i := range sums {
		out = t.TempDir()
		r := release{out: out}
		if err := r.run([]string{runtime.GOOS + "/" + runtime.GOARCH}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	sum, name, _ := strings.Cut(strings.TrimSpace(sums[0]), "  ")
	if sums[0] != sums[1] || len(sum) != 2*sha256.Size {
		t.Errorf("two releases differ:\n%s%s", sums[0], sums[1])
	}
	files := unpack(t, filepath.Join(out, name))
	folder := strings.TrimSuffix(name, ".tar.gz") + "/"
	for _, want := range []string{"kvreplay", "LICENSE", "README.md", "man/kvreplay-replay.1", "completions/kvreplay.bash"} {
		if len(files[folder+want]) == 0 {
			t.Errorf("the archive lacks %s", want)
		}
	}
	program := filepath.Join(t.TempDir(), "kvreplay")
	if err := os.WriteFile(program, files[folder+"kvreplay"], 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(program, "version").CombinedOutput()
	version := strings.Split(folder, "_")[1]
	if err != nil || !strings.HasPrefix(strings.Replace(string(text), "version v", "version ", 1), "kvreplay version "+version+"\n") {
		t.Errorf("%v: %s, expected version %s", err, text, version)
	}
}

func unpack(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// The platforms of a release are those that its page names.
func TestPlatforms(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for target := range strings.SplitSeq(platforms, ",") {
		if !slices.Contains(strings.FieldsFunc(string(text), func(r rune) bool { return r == '`' }), target) {
			t.Errorf("README.md lacks `%s`", target)
		}
	}
	if err := (&release{out: t.TempDir()}).run([]string{"linux"}); err == nil && !testing.Short() {
		t.Error("a platform without architecture was built")
	}
}
