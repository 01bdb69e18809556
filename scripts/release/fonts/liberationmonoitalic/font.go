// Package liberationmonoitalic has Liberation Sans.
package liberationmonoitalic

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
