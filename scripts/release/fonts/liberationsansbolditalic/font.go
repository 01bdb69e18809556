// Package liberationsansbolditalic has Liberation Sans.
package liberationsansbolditalic

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
