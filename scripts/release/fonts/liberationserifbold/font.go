// Package liberationserifbold has Liberation Sans.
package liberationserifbold

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
