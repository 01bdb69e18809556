package offline

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kvreplay/kvreplay/datasets/tokens"
)

func TestSplitSentence(t *testing.T) {
	for _, c := range []struct{ text, sentence, rest string }{
		{"One. Two.", "One.", "Two."},
		{"Read reads, e.g. a file. Then more", "Read reads, e.g. a file.", "Then more"},
		{"As in Prop. V. Theor. IV, Mr. Boyle says so. Next.", "As in Prop. V. Theor. IV, Mr. Boyle says so.", "Next."},
		{"Is it so? It is.", "Is it so?", "It is."},
		{"(It is.) Well.", "(It is.)", "Well."},
		{"Version 1.5 is out. Get it.", "Version 1.5 is out.", "Get it."},
		{"A line\nand another.\nNext", "A line and another.", "Next"},
		{"No end\n\nNew paragraph.", "No end", "New paragraph."},
		{"It ends. and goes on. So.", "It ends. and goes on.", "So."},
		{"", "", ""},
	} {
		if s, rest := splitSentence(c.text); s != c.sentence || rest != c.rest {
			t.Errorf("%q: %q and %q, want %q and %q", c.text, s, rest, c.sentence, c.rest)
		}
	}
}

func TestHeadings(t *testing.T) {
	for _, c := range []struct{ paragraph, heading, rest string }{
		{"CHAPTER XII.", "CHAPTER XII", ""},
		{"Chapter 12", "Chapter 12", ""},
		{"_PROP._ I. THEOR. I.", "PROP. I. THEOR. I", ""},
		{"THE FIRST BOOK\nOF OPTICKS", "THE FIRST BOOK OF OPTICKS", ""},
		{"_Obs._ 7. The Rings", "Obs. 7", "The Rings"},
		{"_Exper._ 1.", "Exper. 1", ""},
		{"Book about things: a long story.", "", "Book about things: a long story."},
		{"[Illustration: FIG. 1.]", "", "[Illustration: FIG. 1.]"},
		{"I saw it.", "", "I saw it."},
		{"A = B", "", "A = B"},
		{"Part of the ensuing Discourse about Light was written at the Desire", "", "Part of the ensuing Discourse about Light was written at the Desire"},
		{"LONG " + strings.Repeat("WORDS ", 20), "", "LONG " + strings.Repeat("WORDS ", 20)},
	} {
		if h, rest := splitHeading(c.paragraph); h != c.heading || rest != c.rest {
			t.Errorf("%q: %q and %q, want %q and %q", c.paragraph, h, rest, c.heading, c.rest)
		}
	}
}

const book = `TITLE

CHAPTER I

It begins here, after one heading. More of it
follows.

CHAPTER II

_Obs._ 1. Another
beginning is this one. And more.

_Obs._ 2. Yet another one begins here.
`

func TestParseText(t *testing.T) {
	x, err := parseText([]byte("\ufeff" + strings.ReplaceAll(book, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := []section{
		{"TITLE", "", 0, 0},
		{"CHAPTER I", "It begins here, after one heading.", 2, 5},
		{"CHAPTER II", "", 7, 0},
		{"Obs. 1", "Another beginning is this one.", 9, 11},
		{"Obs. 2", "Yet another one begins here.", 12, 13},
	}
	if !slices.Equal(x.sections, want) {
		t.Errorf("sections %+v, want %+v", x.sections, want)
	}
	if got := x.excerpt(9, 2); got != "_Obs._ 1. Another\nbeginning is this one. And more." {
		t.Errorf("excerpt %q", got)
	}
	if got := x.extract(0, 11); got != "It begins here, after one heading. Another beginning is this one." {
		t.Errorf("extract %q", got)
	}
	for n := 3; n <= len(x.lines); n++ {
		for _, share := range []float64{0, 0.5, 0.999} {
			if from := x.window(want[1], n, share); from < 0 || from > 2 || from+n < 5 || from+n > len(x.lines) {
				t.Errorf("window of %d lines at %v: from %d", n, share, from)
			}
		}
	}
}

// Of three sections with one heading the question says which is meant.
func TestWhich(t *testing.T) {
	x, err := parseText([]byte("OBS\n\nThe first begins.\n\nOBS\n\nThe second begins.\n\nOBS\n\nThe third begins.\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := x.which(x.sections[1], 0, len(x.lines)); got != " where it occurs for time 2 of 3" {
		t.Errorf("%q", got)
	}
	if got := x.which(x.sections[1], 3, 4); got != "" {
		t.Errorf("alone: %q", got)
	}
}

// words is a tokenizer of one token a word.
type words struct{ tokens.Tokenizer }

func (words) Encode(text string) []int { return make([]int, len(strings.Fields(text))) }

// fit finds what a linear search finds, with units of random sizes.
func TestFit(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		units := make([]string, 1+r.IntN(200))
		for i := range units {
			units[i] = strings.Repeat(strings.Repeat("w", 1+r.IntN(9))+" ", r.IntN(30)) // some have no token
		}
		p := &problem{least: 0, most: len(units), build: func(n int) (string, []string) {
			return "a prompt " + strings.Join(units[:n], ""), []string{fmt.Sprint(n)}
		}}
		budget := 2 + r.IntN(3000)
		best := 0
		for n := 0; n <= len(units); n++ {
			if text, _ := p.build(n); len(strings.Fields(text)) <= budget {
				best = n
			}
		}
		f, err := fit(words{}, p, budget)
		if err != nil || f.answers[0] != fmt.Sprint(best) || f.tokens != len(strings.Fields(f.prompt)) {
			t.Fatalf("seed %d: %v units, %d tokens, %v, want %d", seed, f.answers, f.tokens, err, best)
		}
	}
}

func TestLong(t *testing.T) {
	size := func(n int) int { return n }
	list := []int{5, 50, 7, 51, 52, 1, 53, 54, 55, 56, 57, 2}
	if got := long(list, 50, 8, size); !slices.Equal(got, []int{50, 51, 52, 53, 54, 55, 56, 57}) {
		t.Errorf("long enough: %v", got)
	}
	if got := long(list, 56, 8, size); !slices.Equal(got, []int{57, 56, 55, 54, 53, 52, 51, 50}) {
		t.Errorf("too few: %v", got)
	}
	if got := long(list[:2], 56, 8, size); !slices.Equal(got, []int{50, 5}) {
		t.Errorf("a short list: %v", got)
	}
}

// Tests, other systems' files, what is vendored and what a program wrote stay outside;
// the digest is that of sha256sum's lines.
func TestReadGo(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	a, b := "package a\n", "// Package b is good.\npackage b\n"
	tree, err := readGo(fstest.MapFS{
		"VERSION":                  file("go1.99\ntime 2026\n"),
		"src/a/a.go":               file(a),
		"src/b/b_linux.go":         file(b),
		"src/b/b_windows.go":       file(b),
		"src/b/b_test.go":          file(b),
		"src/b/tag.go":             file("//go:build ignore\n\npackage b\n"),
		"src/b/made.go":            file("// Code generated by a program. DO NOT EDIT.\npackage b\n"),
		"src/b/table.go":           file("package b\n\nconst table = `" + strings.Repeat("x", 1000) + "`\n"),
		"src/b/latin.go":           file("package b // \xe9\n"),
		"src/b/notes.txt":          file("b"),
		"src/b/testdata/x.go":      file(b),
		"src/vendor/v/v.go":        file(b),
		"src/cmd/c/c.go":           file(b),
		"test/x.go":                file(b),
		"src/b/later/later.go":     file("//go:build go1.50\n\npackage later\n"),
		"src/b/other/other_arm.go": file("package other\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	sum := sha256.New()
	for _, f := range tree.files {
		paths = append(paths, f.path)
		fmt.Fprintf(sum, "%x  %s\n", sha256.Sum256([]byte(f.text)), f.path)
	}
	if want := []string{"src/a/a.go", "src/b/b_linux.go", "src/b/later/later.go"}; !slices.Equal(paths, want) {
		t.Errorf("files %v, want %v", paths, want)
	}
	if want := fmt.Sprintf("sha256:%x", sum.Sum(nil)); tree.digest != want || tree.name != "Go distribution go1.99" {
		t.Errorf("%s, digest %s, want %s", tree.name, tree.digest, want)
	}
	if err := tree.parse(); err != nil || len(tree.packages) != 3 || tree.byPath["b"].doc != "Package b is good.\n" {
		t.Errorf("%v, %+v", err, tree.packages)
	}
	if _, err := readGo(fstest.MapFS{"VERSION": file("go1.99")}); err == nil {
		t.Error("no sources: no error")
	}
	broken, err := readGo(fstest.MapFS{"VERSION": file("go1.99"), "src/a/a.go": file("package a\nfunc {")})
	if err == nil {
		err = broken.parse()
	}
	if err == nil || !strings.Contains(err.Error(), "src/a/a.go:2") {
		t.Errorf("broken source: %v", err)
	}
}

func TestDecls(t *testing.T) {
	tree, err := readGo(fstest.MapFS{"VERSION": {Data: []byte("go1.99")}, "src/a/a.go": {Data: []byte(`package a

import (
	"io"
)

// T is a type.
type T[K any] struct{}

type (
	// U is grouped.
	U int
	V int
)

// M does it.
func (t *T[K]) M(r io.Reader) error {
	return nil
}

func f()
`)}})
	if err == nil {
		err = tree.parse()
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range tree.packages[0].decls {
		got = append(got, fmt.Sprintf("%s|%s|%q|%q|%v", d.qualified(), strings.TrimSpace(d.doc), d.signature, d.source, d.exported()))
	}
	want := []string{
		`a.T|T is a type.|"type T[K any] struct{}"|"// T is a type.\ntype T[K any] struct{}"|true`,
		`a.U|U is grouped.|"U int"|"// U is grouped.\n\tU int"|true`,
		`a.V||"V int"|"V int"|true`,
		`a.T.M|M does it.|"func (t *T[K]) M(r io.Reader) error"|"// M does it.\nfunc (t *T[K]) M(r io.Reader) error {\n\treturn nil\n}"|true`,
		`a.f||"func f()"|"func f()"|false`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("declarations\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := tree.packages[0].files[0].before(18, 1000); !strings.HasPrefix(got, "// Path: src/a/a.go\npackage a\n\nimport (\n\t\"io\"\n)\n\n// T is") || !strings.HasSuffix(got, "error {\n\treturn nil\n") {
		t.Errorf("before line 19: %q", got)
	}
	if got := tree.packages[0].files[0].before(18, 20); got != "// Path: src/a/a.go\npackage a\n\nimport (\n\t\"io\"\n)\n\n\treturn nil\n" {
		t.Errorf("20 bytes before line 19: %q", got)
	}
}

// A variable by a package's name hides the package; of two uses the first counts.
func TestFirstUses(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tree, err := readGo(fstest.MapFS{"VERSION": file("go1.99"),
		"src/url/url.go":   file("package url\n\nfunc Parse() {}\n"),
		"src/path/path.go": file("package path\n\nfunc Base() {}\n\nfunc Dir() {}\n"),
		"src/a/a.go": file("package a\n\nimport (\n\t\"path\"\n\t\"url\"\n)\n\nfunc f(url T) {\n\turl.Parse()\n" +
			"\tpath.Dir()\n\tpath.Base()\n}\n")})
	if err == nil {
		err = tree.parse()
	}
	if err != nil {
		t.Fatal(err)
	}
	uses := tree.firstUses(tree.byPath["a"].files[0], 100)
	if len(uses) != 1 || uses[0].line != 9 || uses[0].of.qualified() != "path.Dir" {
		t.Errorf("%+v", uses)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range Tasks() {
		if seen[x.Name] || x.Summary == "" || x.Reference == "" {
			t.Errorf("%+v", x)
		}
		seen[x.Name] = true
	}
	if len(seen) != 11 {
		t.Errorf("%d tasks", len(seen))
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte(book))
	f.Add([]byte("*** START OF IT\nA\n\n*** END OF IT"))
	f.Add([]byte("_XXXXXXX_\x00\nT\n4_\n\n_\n\x02\n   _")) // the sentence's line was off
	f.Add([]byte("_Obs._ 1. A. B\n\n\n\nCHAPTER"))
	f.Fuzz(func(t *testing.T, content []byte) {
		x, err := parseText(content)
		if err != nil {
			return
		}
		for i, p := range x.paragraphs {
			if p.text == "" || p.at < 0 || p.at >= len(x.lines) || i > 0 && p.at <= x.paragraphs[i-1].at {
				t.Fatalf("paragraph %d: %+v", i, p)
			}
		}
		for i, s := range x.sections {
			if s.heading == "" || s.first != "" && (s.to <= s.from || s.to > len(x.lines)) {
				t.Fatalf("section %d: %+v of %d lines", i, s, len(x.lines))
			}
			if s.first == "" {
				continue
			}
			for n := s.to - s.from; n <= len(x.lines); n++ {
				from := x.window(s, n, 0.5)
				if from < 0 || from > s.from || from+n < s.to || from+n > len(x.lines) {
					t.Fatalf("window of %d lines from %d for %+v", n, from, s)
				}
			}
			shown := squeeze(plain(x.excerpt(s.from, s.to-s.from)))
			if !strings.Contains(shown, s.first) {
				t.Fatalf("%q does not hold %q", shown, s.first)
			}
		}
	})
}

func FuzzSentence(f *testing.F) {
	f.Add("One. Two.")
	f.Add("a\n\nb")
	f.Fuzz(func(t *testing.T, text string) {
		sentence, rest := splitSentence(text)
		if got, want := squeeze(sentence+" "+rest), squeeze(text); got != want {
			t.Fatalf("%q and %q of %q", sentence, rest, text)
		}
	})
}

// A line that is asked for says something: four letters at least, and no comment.
func TestTargets(t *testing.T) {
	code := &tree{comment: "//"}
	for line, want := range map[string]bool{"else {\n": true, "\treturn x\n": true, "for {\n": false, "\t})\n": false, "\t// a comment\n": false, "x = 1 // comment\n": true} {
		if got := code.says(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
	all := []string{"package p\n", "\n", "var abcd\n", "func abcd\n"} // 10, 1, 9 and 10 bytes
	for enough, want := range map[int][]int{0: {2, 3}, 11: {2, 3}, 12: {3}, 15: {3}, 100: {3}} {
		if got := code.targets(all, enough); !slices.Equal(got, want) {
			t.Errorf("with %d bytes before them, or half the file: lines %v, want %v", enough, got, want)
		}
	}
}
