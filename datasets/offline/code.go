package offline

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"unicode"
)

// openLccGo asks for the next line of a Go file.
func openLccGo(s *sources, budget int) (generator, error) {
	t, err := s.openGo()
	if err != nil {
		return nil, err
	}
	return lineAfter(&t.tree, budget), nil
}

// openLccPython asks for the next line of a Python file.
func openLccPython(s *sources, budget int) (generator, error) {
	t, err := s.openPython()
	if err != nil {
		return nil, err
	}
	return lineAfter(t, budget), nil
}

// lineAfter asks for the line after a run of lines. A unit is a line: of the file, and
// where that has too few, of the other files in its folder before it.
func lineAfter(t *tree, budget int) generator {
	enough := budget * bytesPerToken
	folders := map[string][]file{}
	for _, f := range t.files {
		folders[path.Dir(f.path)] = append(folders[path.Dir(f.path)], f)
	}
	candidates := long(t.files, enough, 8, func(f file) int { return len(f.text) })
	if len(candidates[len(candidates)-1].text) < enough { // too few files are long enough
		candidates = long(t.files, enough, 8, func(f file) int { return size(folders[path.Dir(f.path)]) })
	}
	return func(_ int, r *rand.Rand) (*problem, error) {
		for range 1000 {
			f := pick(r, candidates)
			own := lines(f.text)
			targets := t.targets(own, enough)
			if len(targets) == 0 {
				continue
			}
			at := pick(r, targets)
			all := own[:at]
			if length(all) < enough {
				all = append(t.others(folders[path.Dir(f.path)], f), all...)
			}
			return &problem{
				least: 1, most: len(all),
				origin: fmt.Sprintf("%s, %s:%d", t.name, f.path, at+1),
				build: func(n int) (string, []string) {
					return published("lcc", strings.Join(all[len(all)-n:], ""), ""), []string{codeLine(own[at])}
				},
			}, nil
		}
		return nil, fmt.Errorf("no line of code in the files of %s", t.name)
	}
}

// others are the lines of all files but one, each with its name before it.
func (t *tree) others(files []file, but file) (all []string) {
	for _, f := range files {
		if f != but {
			all = append(all, t.comment+" "+f.path+"\n")
			all = append(all, lines(f.text)...)
			all = append(all, "\n")
		}
	}
	return append(all, t.comment+" "+but.path+"\n")
}

// size is the bytes of files, length those of lines.
func size(files []file) (n int) {
	for _, f := range files {
		n += len(f.text)
	}
	return n
}

func length(lines []string) (n int) {
	for _, line := range lines {
		n += len(line)
	}
	return n
}

// targets are the lines that may be asked for: code, with so many bytes before them or,
// where the file is shorter, in its second half.
func (t *tree) targets(all []string, enough int) (at []int) {
	before := 0
	enough = min(enough, length(all)/2)
	for i, line := range all {
		if i > 0 && before >= enough && t.says(line) {
			at = append(at, i)
		}
		before += len(line)
	}
	return at
}

// says is whether a line holds more than a comment or brackets.
func (t *tree) says(line string) bool {
	line = strings.TrimSpace(line)
	letters := 0
	for _, r := range line {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	return letters >= 4 && !strings.HasPrefix(line, t.comment)
}

// codeLine is a line without what may be behind it.
func codeLine(line string) string { return strings.TrimRight(line, " \t\r\n") }
