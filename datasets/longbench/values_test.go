package longbench

import (
	"io"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// endless is a string that does not end.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if !e.begun {
		copy(p, `{"context": "`)
		e.begun = true
	}
	return len(p), nil
}

// A row without end is refused, not collected.
func TestTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 64 MiB")
	}
	for _, err := range values("f", io.MultiReader(strings.NewReader(" {}\n"), new(endless))) {
		if err != nil {
			if !strings.Contains(err.Error(), "f:2: row 2: longer than 67108864 bytes") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("no error")
}

// The limit is of a row, not of the file.
func TestManyLongRows(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 66 MiB")
	}
	row := `{"context": "` + strings.Repeat("x", 33<<20) + `"}` + "\n"
	rows := 0
	for _, err := range values("f", strings.NewReader(row+row)) {
		fatal.If(t, err)
		rows++
	}
	if rows != 2 {
		t.Errorf("%d rows, expected 2", rows)
	}
}
