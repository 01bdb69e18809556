// Package liberationserifregular has Liberation Sans.
package liberationserifregular

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
