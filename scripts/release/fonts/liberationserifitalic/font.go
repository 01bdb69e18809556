// Package liberationserifitalic has Liberation Sans.
package liberationserifitalic

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
