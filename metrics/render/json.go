package render

import (
	"encoding/json"
	"io"
)

// JSON writes a board or a comparison as indented JSON. metrics/BOARD.md and
// metrics/README.md document the fields.
func JSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
