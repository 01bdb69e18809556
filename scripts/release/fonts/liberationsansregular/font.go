// Package liberationsansregular has Liberation Sans.
package liberationsansregular

import "github.com/go-fonts/liberation/liberationsansregular"

// TTF is the font.
var TTF = liberationsansregular.TTF
