package csvrows

import (
	"strings"
	"testing"
)

// A file that is not a text is refused by its name, without its bytes. Text may have any characters.
func TestReadOfOtherFiles(t *testing.T) {
	read := func(text string) error {
		_, err := Read(strings.NewReader(text), "x.csv", []string{"a", "é"}, func([]string, int) (int, error) { return 0, nil })
		return err
	}
	const refused = "x.csv is not a CSV file: name a text file with the columns a,é"
	for _, text := range []string{"PAR1\x15\x04\x15&", "\x7fELF\x02", "a,b\n1,\x00", "\xff\xfe\x00\x00"} {
		if err := read(text); err == nil || err.Error() != refused {
			t.Errorf("%q: %v, expected %s", text, err, refused)
		}
	}
	for _, text := range []string{"a,é\r\n1,2\r\n", "#" + strings.Repeat("x", beginning-2) + "é\na,é\n1,2\n", "\ufeffa,é\n1,2\n", "\xff\xfea\x00,\x00\xe9\x00\n\x001\x00,\x002\x00\n\x00"} {
		if err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := read("a,ü\n1,2"); err == nil || err.Error() != "x.csv:1: columns a,ü, expected a,é" {
		t.Errorf("other columns: %v", err)
	}
}
