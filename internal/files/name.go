package files

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// longestSafeName leaves room in the 255 bytes that file systems allow for what callers
// append to a name and for what temporary files add.
const longestSafeName = 200

var (
	// unsafeInNames are the characters that a shell, a glob or a file system may read as
	// more than a letter.
	unsafeInNames = regexp.MustCompile(`[^\pL\pM\pN._-]+`)
	// reserved are the names that Windows gives to devices, with any ending.
	reserved = regexp.MustCompile(`(?i)^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)`)
)

// SafeName returns s as a name for a new file, of at most 200 bytes. Letters, digits and
// ". _ -" stay, the rest becomes "_". A name of this kind stays in its folder, is not hidden,
// and is no option of a command. Different texts may have one name.
func SafeName(s string) string {
	s = unsafeInNames.ReplaceAllString(strings.ToValidUTF8(s, "_"), "_")
	if s == "" || strings.ContainsRune(".-", rune(s[0])) || reserved.MatchString(s) {
		s = "_" + s
	}
	for len(s) > longestSafeName {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
