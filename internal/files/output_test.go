package files

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// An output never replaces an input or anything but a regular file.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.WriteFile(at("input"), []byte("x"), 0o600), os.Link(at("input"), at("same")),
		os.Symlink(at("pipe"), at("link")), os.Symlink(at("nowhere"), at("dangling"))); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		at("pipe"): "is a pipe", at("link"): "is a pipe", dir: "is a folder", at("dangling"): "a symbolic link to nothing",
		at("input"): "also an input", at("same"): "also an input", "": "an empty name", filepath.Join(dir, "no", "x"): "no such file",
	} {
		err := Check(target, at("missing"), at("input"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", target, err, want)
		}
		if strings.Contains(want, "an input") {
			continue // Create gets no inputs
		}
		if f, err := Create(target); err == nil {
			f.Abort()
			t.Errorf("%q was created", target)
		}
	}
	if info, err := os.Lstat(at("pipe")); err != nil || info.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v now, %v", info.Mode(), err)
	}
}

// An output appears only after Commit. It keeps permissions and links and leaves no other file.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir()) // on the same file system, and expected to stay empty
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	fatal.If(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Symlink("a", link)))
	f, err := Create(link)
	fatal.If(t, err)
	if _, err := f.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("before Commit: %q", text)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("temporary files are in %v", left)
	}
	fatal.If(t, f.Commit())
	f.Abort()
	fatal.If(t, Write(filepath.Join(dir, "c"), []byte("whole")))
	text, _ := os.ReadFile(path)
	info, err := os.Lstat(path)
	if string(text) != "new" || err != nil || info.Mode() != 0o600 {
		t.Errorf("after Commit: %q, %v, %v", text, info, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("the folder has %v", left)
	}
}

// A file with the longest permitted name is written like others, although the temporary name would
// be longer. It is written whole, keeps its permissions and replaces no other file.
func TestLongNames(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 247) + ".parquet", strings.Repeat("x", 255), "x." + strings.Repeat("y", 253), strings.Repeat("é", 127)} {
		dir := t.TempDir()
		path, short := filepath.Join(dir, name), filepath.Join(dir, shortened(name))
		fatal.If(t, errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.WriteFile(short, []byte("another"), 0o640)))
		f, err := Create(path)
		fatal.If(t, err)
		if base := filepath.Base(f.pending.Name()); len(base) > 255 || strings.HasSuffix(name, ".parquet") != unfinished.MatchString(base) {
			t.Errorf("the temporary name is %s", base)
		}
		f.Abort()
		fatal.If(t, Write(path, []byte("new")))
		text, _ := os.ReadFile(path)
		other, _ := os.ReadFile(short)
		info, err := os.Stat(path)
		if string(text) != "new" || string(other) != "another" || err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q, %q, %v, %v", text, other, info, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 2 {
			t.Errorf("the folder has %v", left)
		}
	}
}

// Errors name the target and not the temporary file.
func TestErrorNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 256))
	if err := Write(path, nil); err == nil || !strings.HasPrefix(err.Error(), "cannot write "+path+": ") || strings.Contains(err.Error(), ".x") {
		t.Errorf("%v", err)
	}
	if err := cause(&os.PathError{Op: "write", Path: "/.x123", Err: syscall.ENOSPC}); err.Error() != "no space left on device (is the disk full?)" {
		t.Errorf("%v", err)
	}
}

// An input that is read once may be a pipe with a late writer, but not a device. Waiting for a pipe
// ends with the context.
func TestRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	fatal.If(t, syscall.Mkfifo(pipe, 0o600))
	go func() { _ = os.WriteFile(pipe, []byte("late"), 0) }()
	if text, err := Read(t.Context(), pipe); string(text) != "late" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Read(t.Context(), "/dev/zero"); err == nil || !strings.Contains(err.Error(), "/dev/zero is a device") {
		t.Errorf("%v", err)
	}
	large := filepath.Join(t.TempDir(), "large")
	fatal.If(t, os.WriteFile(large, nil, 0o600))
	fatal.If(t, os.Truncate(large, 5<<30))
	if text, err := Read(t.Context(), large); text != nil || err == nil || !strings.Contains(err.Error(), "more than 256 MiB: name a smaller file") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Read(ctx, pipe); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no writer: %v", err)
	}
	silent, err := os.OpenFile(pipe, os.O_RDWR, 0)
	fatal.If(t, err)
	defer silent.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Read(ctx, pipe); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent writer: %v", err)
	}
}

// Sweep removes only the files of a killed program.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * staleAfter)
	held, err := Create(filepath.Join(dir, "held.jsonl"))
	fatal.If(t, err)
	defer held.Abort()
	for name, when := range map[string]time.Time{".killed.jsonl123": old, ".killed.parquet9": old, ".killed.sha25642": old, ".killed.json3": old, ".ahead.jsonl7": time.Now().Add(2 * staleAfter), ".young.jsonl123": time.Now(), ".mine.jsonl": old, "rows.jsonl": old} {
		path := filepath.Join(dir, name)
		fatal.If(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, when, when)))
	}
	fatal.If(t, os.Chtimes(held.pending.Name(), old, old))
	Sweep(dir)
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), filepath.Base(held.pending.Name())+" .mine.jsonl .young.jsonl123 rows.jsonl"; got != want {
		t.Errorf("left: %s, expected %s", got, want)
	}
}

// An output replaces a file of its own kind or an empty one, and no other.
func TestOtherKinds(t *testing.T) {
	kinds := []string{"PAR1....", "\x1f\x8b\x08", "{\"a\":1}\n{\"a\":2}\n", "{\n  \"a\": 1\n}\n", "[\n{}]\n", "<svg>", "<!doctype html><html><svg>", "a,b\n1,2\n",
		"schema: 1\nfamily: capacities\n", "# Mine.\n\nschema: 1\nfamily: capacities\n", "{\"schema\":1,\"engine\":\"3\"}\n"}
	is := func(i int) string { return kindOf([]byte(kinds[i])) }
	for i, old := range kinds {
		for j, text := range kinds {
			path := filepath.Join(t.TempDir(), "f")
			fatal.If(t, os.WriteFile(path, []byte(old), 0o600))
			early, err := CheckKind(path, []byte(text)), Write(path, []byte(text))
			var refused *TargetError
			left, _ := os.ReadFile(path)
			switch {
			case is(i) == is(j):
				if err != nil || early != nil || string(left) != text {
					t.Errorf("%q over %q: %v, %v, %q", text, old, early, err, left)
				}
			case !errors.As(err, &refused) || !errors.As(early, &refused) || string(left) != old || !strings.Contains(err.Error(), path+" is "+is(i)+", not "+is(j)+". Choose"):
				t.Errorf("%q over %q: %v, %v, %q", text, old, early, err, left)
			}
			if err := errors.Join(os.WriteFile(path, []byte("\n"), 0o600), Write(path, []byte(text))); err != nil {
				t.Errorf("over an empty file: %v", err)
			}
			if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
				t.Errorf("%q over %q leaves %v, %v", text, old, left, err)
			}
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), CheckKind(pipe, []byte("x")), CheckKind(pipe+"none", []byte("x"))); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "pack")
	fatal.If(t, os.WriteFile(path, []byte("damaged"), 0o600))
	if err := Rewrite(path, func(w io.Writer) error { _, err := io.WriteString(w, kinds[0]); return err }); err != nil {
		t.Error(err)
	}
}
