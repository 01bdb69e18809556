package tracetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// Environment is a Python virtual environment.
type Environment struct {
	Name         string // folder name in the user's cache, before the hash of Requirements
	Requirements string // path of the file that pins its packages
	Imports      string // modules that its code imports, as in "numpy, pyarrow"
}

// PythonPackage is the environment of the Python package, for the root folder of the module.
func PythonPackage(root string) Environment {
	return Environment{Name: "python", Requirements: filepath.Join(root, "scripts/python/requirements.txt"),
		Imports: "mypy, nbclient, numpy, pandas, polars, pyarrow, pytest, setuptools, sklearn"}
}

// Interop is the environment of the programs that read files of kvreplay, for the root folder of the
// module. The Python package runs in it too, without its tests and examples.
func Interop(root string) Environment {
	return Environment{Name: "interop", Requirements: filepath.Join(root, "scripts/interop/requirements.txt"), Imports: "duckdb, numpy, pandas, pyarrow"}
}

// made holds the result of making each environment, once per process.
var made sync.Map

// Python returns the environment's interpreter and makes the environment if it is missing. Without
// Python or the packages the test is skipped, unless KVREPLAY_REQUIRE_PYTHON=1.
func Python(t testing.TB, e Environment) (interpreter string) {
	t.Helper()
	interpreter, err := e.Find()
	switch {
	case err == nil:
	case os.Getenv("KVREPLAY_REQUIRE_PYTHON") == "1":
		t.Fatalf("KVREPLAY_REQUIRE_PYTHON=1, but: %v", err)
	default:
		t.Skipf("no comparison without Python and its packages (KVREPLAY_REQUIRE_PYTHON=1 makes this an error): %v", err)
	}
	return interpreter
}

// Find returns the environment's interpreter and makes the environment if it is missing.
func (e Environment) Find() (interpreter string, err error) {
	once, _ := made.LoadOrStore(e, sync.OnceValues(e.make))
	return once.(func() (string, error))()
}

// make builds the environment under another name first, so that parallel tests see all of it or
// nothing.
func (e Environment) make() (string, error) {
	requirements, err := os.ReadFile(e.Requirements)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(requirements)
	final := filepath.Join(cache, "kvreplay", e.Name+"-"+hex.EncodeToString(sum[:6]))
	interpreter := filepath.Join(final, "bin", "python")
	works := func() bool { return exec.Command(interpreter, "-c", "import "+e.Imports).Run() == nil }
	if works() {
		return interpreter, nil
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return "", err
	}
	building, err := os.MkdirTemp(filepath.Dir(final), "building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(building)
	if err := e.install(building); err != nil {
		return "", err
	}
	if err := os.Rename(building, final); err != nil && !works() {
		return "", fmt.Errorf("install the environment %s: %w", e.Name, err)
	}
	return interpreter, nil
}

// install fills a folder with Python and the packages.
func (e Environment) install(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", "-r", e.Requirements},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// Copy writes a copy of a trace under another name and returns its path.
func Copy(t testing.TB, path, name string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	copied := filepath.Join(t.TempDir(), name)
	fatal.If(t, os.WriteFile(copied, text, 0o644))
	return copied
}

// Hostile are texts that attack programs that read names: terminals, spreadsheets, browsers,
// Markdown, shells and file systems.
var Hostile = []string{
	"x\x1b[31m\x1b]0;title\x07", "\u009b31m\u0090q\u009c", "a\rb\x08\x7f\x00", "t\u202ecod.exe\u2066\u200f",
	"l\u200br\u200du\u2060\ufeff\u00ad\ufe0f\u115f\u3164", "\U000e0041\U000e0042", "line\u2028par\u2029end", "\xff\xfe\xc0\x80\xed\xa0\x80", "\ufffe\uffff\U0010ffff\ufffd",
	"line\nFORGED: every check passed", "\r\nFORGED,1,2\r\n", "\tFORGED",
	"=1+1", "+1+1", "-2+3+cmd|' /C calc'!A0", "@SUM(1,1)", "\t=1", "'=1", "''", "＝1+1", "=HYPERLINK(\"http://a.example\",\"b\")", "a,\"=1\"", "-1", "1e5",
	"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</text></svg><script>", "<!--", "-->", "]]>", "<![CDATA[", "&lt;b&gt;&#60;&copy;", "<https://a.example>", "<a@b.example>",
	"[a](javascript:alert)", "![a](http://a.example/x.png)", "[a]: http://a.example", "[^1]: hidden", "[^1]", "[x] done", "[ ]", "](", "\\](a)", "http://a.example www.a.example ftp://a a@b.example",
	"# heading", "heading #", "###", "> quote", "- item", "+ item", "* item", "1. item", "2) item", "---", "***", "===", "    code", "```", "~~~", "`code`", "``", "`` ` ``",
	"*a*", "**a**", "_a_", "~~a~~", "$x$", "$`x`$", "a|b", "a\\|b", "a\\", "\\", "\\\\`", "|---|", "| a | b |", "||", "a  ", " ",
	"../../etc/x", "/etc/passwd", "a/b", "a\\b", "..", ".", ".hidden", "-rf", "--out=x", "~root", "C:x", "con", "NUL.txt", "LPT¹", "a:b", "*", "?", "[a-z]", "{a,b}", "a b", "$(touch x)", "`touch x`", ";touch x", "a&b", "!!", "a'b", "\"", "%s%n%d", "{{.}}", "%PATH%",
	"漢字 é 🙂", strings.Repeat("x", 300), strings.Repeat("é", 150), strings.Repeat("\u202e", 80), "",
}

// HostileText draws a text of pieces of Hostile and random characters.
func HostileText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(5) {
		piece := Hostile[r.IntN(len(Hostile))]
		switch r.IntN(5) {
		case 0:
			piece = piece[:r.IntN(len(piece)+1)]
		case 1:
			b.WriteRune(rune(r.IntN(0x80)))
		case 2:
			b.WriteRune(rune(r.IntN(0x3100)))
		case 3:
			b.WriteByte(byte(r.IntN(0x100)))
		}
		b.WriteString(piece)
	}
	return b.String()
}

// Meanwhile is a context that calls Do at the N-th call of Err. Readers call Err before each
// stream.
type Meanwhile struct {
	context.Context
	N  int64
	Do func()

	asked atomic.Int64
}

// Err returns the error of the embedded context.
func (c *Meanwhile) Err() error {
	if c.asked.Add(1) == c.N {
		c.Do()
	}
	return c.Context.Err()
}

// Asked returns the number of calls of Err.
func (c *Meanwhile) Asked() int64 { return c.asked.Load() }

// Overwrite overwrites some bytes in the first third of the file at path. Readers near its end have
// already read them.
func Overwrite(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt([]byte("changed"), info.Size()/3)
	}
	if err != nil {
		t.Error(err)
	}
}
