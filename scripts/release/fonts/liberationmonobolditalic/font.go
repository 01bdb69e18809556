// Package liberationmonobolditalic has Liberation Sans.
package liberationmonobolditalic

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
