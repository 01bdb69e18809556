package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// sizeLimit is the most bytes of a released program.
const sizeLimit = 40_000_000

// TestProgramIsSmall builds the program as a release does.
func TestProgramIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	noteFolders(t)
	program := filepath.Join(t.TempDir(), "kvreplay")
	if out, err := exec.Command("make", "-C", filepath.Join("..", ".."), "build", "BIN="+program).CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, out)
	}
	info, err := os.Stat(program)
	fatal.If(t, err)
	if info.Size() >= sizeLimit {
		t.Errorf("make build makes a program of %d bytes, expected less than %d. `go tool nm -size -sort size` lists the parts "+
			"of a build without -s. A reachable reflect.Value.MethodByName, as in text/template, adds 6 MB: `go build -ldflags=-dumpdep` "+
			"marks it with <ReflectMethod>", info.Size(), sizeLimit)
	}
}
