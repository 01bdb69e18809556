package render

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestBoardFieldsAreDocumented(t *testing.T) {
	text := rowstest.Document(t, "BOARD.md")
	for _, name := range append(rowstest.JSONNames(reflect.TypeFor[board.Board]()), boardColumns...) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("BOARD.md does not document `%s`", name)
		}
	}
}
