// Package prose counts phrases that make text hard to read, in documents and comments.
package prose

import (
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

var update = flag.Bool("update", false, "write the counts that were found to limits.txt")

// rules are the phrases that the linter counts. Each has a plainer form.
var rules = []struct {
	name    string
	pattern *regexp.Regexp // nil: sentences over mostWords
	remedy  string
}{
	{"semicolon", regexp.MustCompile(`[a-z0-9)]; [a-z]`), "write two sentences"},
	{"what-clause", regexp.MustCompile(`(?:^|[.:] )What [^.?]*\.(?: |$)`), "name the thing"},
	{"inversion", regexp.MustCompile(`(?:^|[.] )(?:Of|Where|So (?:is|are|do|does|has|have)) [a-z]`), "subject, verb, object"},
	{"nobody", regexp.MustCompile(`\b(?:nobody|whoever|beside|so many|as no source has it)\b`), "use a plain word: no policy, next to, N"},
	{"long", nil, fmt.Sprintf("at most %d words", mostWords)},
}

const mostWords = 25

// kinds of text have limits of their own.
const (
	documents = "documents"
	comments  = "comments"
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^```.*?^```")
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	link       = regexp.MustCompile(`\]\([^)]*\)`)
	tableLine  = regexp.MustCompile(`(?m)^\s*\|.*$`)
	markup     = regexp.MustCompile(`(?m)^(?:#+ |[-*] |\d+\. |> )`)
	sentence   = regexp.MustCompile(`[.!?:]["”)*]*(?:\s+|$)`)
)

// paragraphs returns the prose of a Markdown document, without code, tables and addresses.
func paragraphs(text string) []string {
	text = codeBlock.ReplaceAllString(text, "\n")
	text = inlineCode.ReplaceAllString(text, "CODE")
	text = link.ReplaceAllString(text, "]")
	text = tableLine.ReplaceAllString(text, "")
	text = markup.ReplaceAllString(text, "\n")
	var all []string
	for _, p := range strings.Split(text, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			all = append(all, p)
		}
	}
	return all
}

// goComments returns the comments of a Go file.
func goComments(t *testing.T, path string) (all []string) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	fatal.If(t, err)
	for _, group := range file.Comments {
		var prose []string
		for line := range strings.Lines(group.Text()) {
			if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "    ") { // code, as go doc reads it
				line = "\n"
			}
			prose = append(prose, line)
		}
		all = append(all, paragraphs(strings.Join(prose, ""))...)
	}
	return all
}

// matches are the texts that a rule found, with their files, by kind of text and rule.
type matches map[string][]string

// add adds the matches of each rule in a paragraph.
func (m matches) add(kind, file, paragraph string) {
	for _, r := range rules {
		var found []string
		if r.pattern != nil {
			for _, at := range r.pattern.FindAllStringIndex(paragraph, -1) {
				found = append(found, paragraph[at[0]:min(len(paragraph), at[1]+40)])
			}
		} else {
			for _, s := range sentence.Split(paragraph, -1) {
				if len(strings.Fields(s)) > mostWords {
					found = append(found, s)
				}
			}
		}
		for _, text := range found {
			m[kind+" "+r.name] = append(m[kind+" "+r.name], fmt.Sprintf("%s: %q: %s", file, text, r.remedy))
		}
	}
}

// The counts of the whole repository stay within limits.txt, whose figures only fall. Generated
// documents and test data are left out.
func TestProse(t *testing.T) {
	root, all := filepath.Join("..", ".."), matches{}
	generated := map[string]bool{"replay/REPRODUCTION.md": true, "replay/pipeline/BLIND.md": true, "replay/serving/TRTLLM.md": true, "replay/transfer/POINTS.md": true, "datasets/CARD.md": true, "datasets/BOARD.md": true}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch name = filepath.ToSlash(name); {
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin" || name == "results"):
			return fs.SkipDir
		case d.IsDir(), generated[name]:
		case strings.HasSuffix(name, ".md"):
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, p := range paragraphs(string(text)) {
				all.add(documents, name, p)
			}
		case strings.HasSuffix(name, ".go"):
			for _, p := range goComments(t, path) {
				all.add(comments, name, p)
			}
		}
		return nil
	})
	fatal.If(t, err)
	var found strings.Builder
	for _, kind := range []string{documents, comments} {
		for _, r := range rules {
			fmt.Fprintf(&found, "%s %s %d\n", kind, r.name, len(all[kind+" "+r.name]))
		}
	}
	const path = "limits.txt"
	if *update {
		fatal.If(t, os.WriteFile(path, []byte(found.String()), 0o666))
	}
	limits, err := os.ReadFile(path)
	fatal.If(t, err)
	for line := range strings.Lines(string(limits)) {
		var kind, rule string
		var limit int
		if _, err := fmt.Sscan(line, &kind, &rule, &limit); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		if found := all[kind+" "+rule]; len(found) > limit {
			t.Errorf("%s: rule %s matches %d times, at most %d are allowed: rewrite the new text\n%s", kind, rule, len(found), limit, strings.Join(found, "\n"))
		}
	}
}

// Each rule finds its phrase and leaves plain text alone.
func TestRules(t *testing.T) {
	for text, want := range map[string]string{
		"It counts misses. The policy names victims.": "",
		"Rows stay; their cells go.":                  "semicolon",
		"What it lacks is pooled. It stays.":          "what-clause",
		"What is a trace?":                            "",
		"It ends. Of few requests they are narrow.":   "inversion",
		"A cell that nobody has.":                     "nobody",
		"The `a; b` flag is code.":                    "",
		strings.Repeat("word ", mostWords) + ".":      "",
		strings.Repeat("word ", mostWords+1) + ".":    "long",
		"| a; b | in a table |":                       "",
		"```\nwhat; ever\n```":                        "",
		"See [the page](a;b).":                        "",
		strings.Repeat("word ", mostWords-1) + "end. " + strings.Repeat("more ", 20): "",
	} {
		all := matches{}
		for _, p := range paragraphs(text) {
			all.add(documents, "", p)
		}
		for _, r := range rules {
			n := len(all[documents+" "+r.name])
			if (n > 0) != (r.name == want) {
				t.Errorf("%q: rule %s matches %d times, expected %q", text, r.name, n, want)
			}
		}
	}
}
