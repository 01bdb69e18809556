package longbench

import (
	"io"
	"strings"
	"testing"
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
