// Package liberationsansitalic has Liberation Sans.
package liberationsansitalic

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
