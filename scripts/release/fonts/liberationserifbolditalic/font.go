// Package liberationserifbolditalic has Liberation Sans.
package liberationserifbolditalic

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
