package cli_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// pages are the documents of the repository, without what tests read and what commands write.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(markdownFiles(t), func(p string) bool {
		folders := strings.Split(filepath.ToSlash(p), "/")
		return slices.Contains(folders, "testdata") || folders[0] == "results" || folders[0] == "bin"
	})
}

const indexPage = "cmd/README.md"

// indexHead is the head of the index.
const indexHead = `# All pages

This reference is for readers who look for a page. Start with the [README](../README.md), then the tutorial. ` + "`kvreplay --help`" + ` lists the commands. The [glossary](../replay/GLOSSARY.md) defines the terms. The first line of a page states its kind. After you add a page, ` + "`go test ./cmd/cli -run Index -update`" + ` lists it here.
`

// pageKind is a section of the index, with the words by which a page's first sentence states
// its kind. The sentence goes on with what the page is about.
type pageKind struct {
	title  string
	states *regexp.Regexp
}

var kinds = []pageKind{
	{"Tutorial", regexp.MustCompile(`^This tutorial (?:is )?`)},
	{"How-to", regexp.MustCompile(`^This (?:how-to is|page shows) `)},
	{"Reference", regexp.MustCompile(`^This (?:reference is|page is the reference of) `)},
	{"Explanation", regexp.MustCompile(`^This (?:explanation is|page explains) `)},
	{"Other pages", regexp.MustCompile(``)}, // state no kind
}

// tables are references that do not state their kind: they are made by commands or consist of
// definitions.
var tables = map[string]string{
	"datasets/CARD.md":          "the requests, settings and locality of each trace",
	"replay/GLOSSARY.md":        "every term with its one meaning",
	"replay/REPRODUCTION.md":    "published figures and the figures that kvreplay computes",
	"replay/SEMANTICS.md":       "the rules of replay, S1 to S13",
	"replay/transfer/POINTS.md": "measured transfers and what the models give for them",
}

// The index lists every page under its kind. A page's line is its title and its first sentence.
func TestIndexIsCurrent(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	sections := make([]string, len(kinds))
	for _, p := range pages(t) {
		if p == "README.md" || filepath.ToSlash(p) == indexPage {
			continue
		}
		title, about, kind := described(content(t, p))
		if entry, ok := tables[filepath.ToSlash(p)]; ok && kind == len(kinds)-1 {
			about, kind = ": "+entry, 2
		}
		link, err := filepath.Rel(filepath.Dir(indexPage), p)
		fatal.If(t, err)
		sections[kind] += fmt.Sprintf("- [%s](%s)%s\n", title, filepath.ToSlash(link), about)
	}
	index := indexHead
	for i, s := range sections {
		if s != "" {
			index += "\n## " + kinds[i].title + "\n\n" + s
		}
	}
	rewritten(t, indexPage, index, "Index")
}

// markdownLink is a link, or an image, in running text: its text and its target.
var markdownLink = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()\s]+)\)`)

// described returns the title of a page, the rest of its first sentence and its kind.
func described(text string) (title, about string, kind int) {
	head, rest, _ := strings.Cut(text, "\n")
	first := ""
	for line := range strings.Lines(rest) {
		if first = strings.TrimSpace(line); first != "" {
			break
		}
	}
	first = markdownLink.ReplaceAllString(first, "$1")
	kind = slices.IndexFunc(kinds, func(k pageKind) bool { return k.states.MatchString(first) })
	if kind < len(kinds)-1 {
		sentence, _, _ := strings.Cut(kinds[kind].states.ReplaceAllString(first, ""), ". ")
		about = ": " + strings.TrimSuffix(sentence, ".")
	}
	return strings.TrimPrefix(head, "# "), about, kind
}

// Every link of a page leads to a file, and to an anchor that the file has.
func TestPagesLinks(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	attribute := regexp.MustCompile(`(?:src|srcset|href)="([^"]*)"`)
	for _, p := range pages(t) {
		text := withoutCode(content(t, p))
		targets := attribute.FindAllStringSubmatch(text, -1)
		for _, link := range markdownLink.FindAllStringSubmatch(text, -1) {
			targets = append(targets, []string{link[0], link[2]})
		}
		for _, found := range targets {
			file, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			at := p
			if file != "" {
				at = path.Join(path.Dir(filepath.ToSlash(p)), file)
			}
			if _, err := os.Stat(at); err != nil {
				t.Errorf("%s: the link %s leads nowhere", p, found[1])
			} else if anchor != "" && strings.HasSuffix(at, ".md") && !slices.Contains(anchors(content(t, at)), anchor) {
				t.Errorf("%s: %s has no heading #%s", p, at, anchor)
			}
		}
	}
}

// withoutCode is a page without its blocks of code and quoted words.
func withoutCode(text string) string {
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

// anchors are those of a page: its headings as GitHub names them, and elements with an id.
func anchors(text string) (all []string) {
	for _, id := range regexp.MustCompile(`id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		all = append(all, id[1])
	}
	text = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
	times := map[string]int{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(text, -1) {
		title := markdownLink.ReplaceAllString(heading[1], "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		if n := times[anchor]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			all = append(all, anchor)
		}
		times[anchor]++
	}
	return all
}
