// The fonts of released programs. Plots use Liberation Sans, and the plotting library links twelve fonts.
// In this module all of them are that one, which makes the program 4 MB smaller. Make build and releases
// put it in the place of the module whose name it has.
module codeberg.org/go-fonts/liberation

go 1.23.0

require github.com/go-fonts/liberation v0.3.3
