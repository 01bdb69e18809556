// Package liberationmonobold has Liberation Sans.
package liberationmonobold

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
