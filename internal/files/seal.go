package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// Seal returns the last line of a file that a program reads back: the digest of its name and of all
// lines before. It detects damage, and no forgery.
func Seal(name string, text []byte) []byte {
	sum := sha256.New()
	sum.Write([]byte(name + "\n"))
	sum.Write(text)
	return []byte(`{"sha256":"` + hex.EncodeToString(sum.Sum(nil)) + `"}` + "\n")
}

// Unseal returns the lines before the seal. ok is false if a byte of them, of the seal or of the
// file's name has changed since the writing.
func Unseal(name string, text []byte) ([]byte, bool) {
	at := len(text) - len(Seal(name, nil))
	if at < 0 || !bytes.Equal(text[at:], Seal(name, text[:at])) {
		return nil, false
	}
	return text[:at], true
}
