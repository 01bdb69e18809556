replace codeberg.org/go-fonts/liberation => ./scripts/release/fonts
require github.com/go-fonts/liberation v0.3.3
