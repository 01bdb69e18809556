package files

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/trace/tracetest"
)

// The error names the file in the place of a folder, and a remedy.
func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), nil, 0o600), syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("nowhere", at("dangling")),
		os.Mkdir(at("real"), 0o755), os.Symlink("real", at("link"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new/below", "real", "link", "link/below"} {
		if err := MakeFolder(at(name)); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(at(name)); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for name, want := range map[string]string{
		"file": "file is a file, expected a folder", "file/below": "file is a file, expected a folder", "pipe": "pipe is a pipe, expected a folder",
		"dangling": "dangling is a symbolic link to nothing, expected a folder", "dangling/below": "dangling is a symbolic link to nothing",
	} {
		var target *TargetError
		if err := MakeFolder(at(name)); !errors.As(err, &target) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", name, err, want)
		}
	}
}

// An address is no output, not even as filepath.Join leaves it. Other names with a colon are.
func TestAddressesAreNoOutputs(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"s3://bucket/key", filepath.Join("s3://bucket", "key"), "https://host/x", "S3://b"} {
		var target *TargetError
		if err := MakeFolder(name); !errors.As(err, &target) || !strings.Contains(err.Error(), name+" is an address, expected a local folder") {
			t.Errorf("folder %s: %v", name, err)
		}
		if err := Write(name, []byte("x")); !errors.As(err, &target) || !strings.Contains(err.Error(), name+" is an address, expected a local file") {
			t.Errorf("file %s: %v", name, err)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v", made, err)
	}
	for _, name := range []string{"a:b", "./s3:/b", "x:/y"} {
		if err := errors.Join(MakeFolder(name), Write(name+"/f", nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A folder without write permission is reported before the work, also if a file in it would be
// replaced.
func TestFolderTakesNoFiles(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("nothing is denied to root")
	}
	dir := t.TempDir()
	fatal.If(t, errors.Join(os.WriteFile(filepath.Join(dir, "there"), nil, 0o600), os.Chmod(dir, 0o500)))
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	for _, name := range []string{"there", "new"} {
		path := filepath.Join(dir, name)
		if err := Check(path); err == nil || err.Error() != "cannot write "+path+": folder "+dir+": permission denied" {
			t.Errorf("%v", err)
		}
	}
}

// Pattern characters in the name of the folder are literal.
func TestMatching(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]*?")
	path := filepath.Join(dir, "x.profile-1.parquet")
	fatal.If(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, nil, 0o600), os.WriteFile(filepath.Join(dir, "x.rows-1.jsonl"), nil, 0o600)))
	if got, err := Matching(dir, "*.profile-*.parquet"); err != nil || len(got) != 1 || got[0] != path {
		t.Errorf("%q, %v", got, err)
	}
}

// A safe name is one plain component of a path, for any text.
func TestSafeName(t *testing.T) {
	for given, want := range map[string]string{
		"qa_text-4k.v2": "qa_text-4k.v2", "a b": "a_b", "../x": "_.._x", "": "_", ".hidden": "_.hidden", "-rf": "_-rf", "con": "_con", "NUL.txt": "_NUL.txt", "console": "console",
		"漢字é": "漢字é", "a\x1b[31m": "a_31m", "\xff": "_", strings.Repeat("é", 150): strings.Repeat("é", 100),
	} {
		if got := SafeName(given); got != want {
			t.Errorf("SafeName(%q) = %q, expected %q", given, got, want)
		}
	}
	r := rand.New(rand.NewPCG(20, 2))
	for range 20_000 {
		s := tracetest.HostileText(r)
		if n := SafeName(s); filepath.Base(n) != n || n == "." || n == ".." || n[0] == '-' || n[0] == '.' || len(n) > 200 || !utf8.ValidString(n) || strings.ContainsAny(n, "\x00\n\\:*?\"<>|[]{}$`!&;() '~#=") {
			t.Errorf("SafeName(%q) = %q", s, n)
		}
	}
}

// Only one call at a time is in Locked. The file stays, and errors are those of the function.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	inside, most := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		inside += n
		most = max(most, inside)
	}
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := Locked(path, func() error { count(1); count(-1); return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d calls at once", most)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	own := errors.New("own")
	if err := Locked(path, func() error { return own }); !errors.Is(err, own) {
		t.Error(err)
	}
	if err := Locked(filepath.Join(path, "below"), func() error { return nil }); err == nil {
		t.Error("a lock below a file")
	}
}

// TestEach: every entry of a large folder is visited once, and a folder that does not exist is an error.
func TestEach(t *testing.T) {
	folder, seen := t.TempDir(), map[string]int{}
	for i := range 2500 {
		fatal.If(t, os.WriteFile(filepath.Join(folder, fmt.Sprint(i)), nil, 0o644))
	}
	fatal.If(t, Each(folder, func(e fs.DirEntry) { seen[e.Name()]++ }))
	for i := range 2500 {
		if seen[fmt.Sprint(i)] != 1 || len(seen) != 2500 {
			t.Fatalf("%d names, %d seen %d times", len(seen), i, seen[fmt.Sprint(i)])
		}
	}
	if err := Each(filepath.Join(folder, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v of a folder that does not exist", err)
	}
}
