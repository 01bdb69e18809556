// Package files is how kvreplay treats files that users name. An output appears whole
// under its name or not at all, takes the place of nothing but a regular file, and never
// that of an input; an input that has to be read twice is a regular file.
package files
