package card

import (
	_ "embed"
	"text/template"
)

//go:embed card.md.tmpl
var pageText string

// page is the card's template; its data is a *view.
var page = template.Must(template.New("card").Parse(pageText))
