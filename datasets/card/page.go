package card

import (
	_ "embed"
	"text/template"

	"github.com/kvreplay/kvreplay/internal/printable"
)

//go:embed card.md.tmpl
var pageText string

// page is the card's template. Its data is a *view, and line escapes a text of traces.
var page = template.Must(template.New("card").Funcs(template.FuncMap{"line": printable.Markdown}).Parse(pageText))
