// Package liberationmonoregular has Liberation Sans.
package liberationmonoregular

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
