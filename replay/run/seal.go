package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// seal returns the last line of a file that the store reads back: the digest of its name and of all
// lines before.
func seal(name string, text []byte) []byte {
	sum := sha256.New()
	sum.Write([]byte(name + "\n"))
	sum.Write(text)
	return []byte(`{"sha256":"` + hex.EncodeToString(sum.Sum(nil)) + `"}` + "\n")
}

// unseal returns the lines before the seal. ok is false if a byte of them, of the seal or of the
// file's name has changed since the writing.
func unseal(name string, text []byte) ([]byte, bool) {
	at := len(text) - len(seal(name, nil))
	if at < 0 || !bytes.Equal(text[at:], seal(name, text[:at])) {
		return nil, false
	}
	return text[:at], true
}

// writeSealed writes a file that unseal reads, whole or not at all.
func writeSealed(path string, text []byte) error {
	return writeWhole(path, append(text, seal(filepath.Base(path), text)...))
}
