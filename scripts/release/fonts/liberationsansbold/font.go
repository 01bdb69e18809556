// Package liberationsansbold has Liberation Sans.
package liberationsansbold

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
