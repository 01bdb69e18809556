// Site writes the web site of kvreplay into a folder: the documents as HTML, the leaderboard with
// submitted policies, the submissions, and the systems. The files are static and need no server.
//
//	go run ./scripts/site -results results -out site
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"log"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	"github.com/kvreplay/kvreplay/metrics/render"
)

// source is the repository that links to code lead to.
const source = "https://github.com/kvreplay/kvreplay/blob/main/"

func main() {
	log.SetFlags(0)
	log.SetPrefix("site: ")
	var s site
	flag.StringVar(&s.program, "program", "bin/kvreplay", "run this `FILE`, a build of kvreplay")
	flag.StringVar(&s.results, "results", "results", "use the rows of make leaderboard in this `FOLDER`")
	flag.StringVar(&s.out, "out", "site", "write to this `FOLDER`, which must be new or empty")
	flag.Parse()
	if err := s.write(); err != nil {
		log.Fatal(err)
	}
}

type site struct{ program, results, out string }

type report struct {
	file, title string
	args        []string
}

// reports lists the pages of the program. patterns of files are those of a shell.
func (s *site) reports() ([]report, error) {
	submitted, err := filepath.Glob("policies/submissions/*/rows.jsonl.gz")
	if err != nil {
		return nil, err
	}
	selectors, err := filepath.Glob("datasets/corpus/selectors_qa_text.*.parquet")
	if err != nil {
		return nil, err
	}
	html := []string{"--format", "html"}
	return []report{
		{"leaderboard.html", "Leaderboard", slices.Concat([]string{"leaderboard", s.results}, submitted, html)},
		{"submissions.html", "Submissions", slices.Concat([]string{"submit", "check"}, html)},
		{"systems.html", "Systems", slices.Concat([]string{"systems"}, selectors, []string{"--hardware", "rtx4090", "--model", "llama-3-8b", "--context", "32768", "--batch", "4"}, html)},
	}, nil
}

// menu are the links at the head of every page, from the root of the site.
var menu = []struct{ File, Title string }{
	{"index.html", "Home"},
	{"leaderboard.html", "Leaderboard"},
	{"submissions.html", "Submissions"},
	{"systems.html", "Systems"},
	{"datasets/CARD.html", "Corpus"},
	{"replay/REPRODUCTION.html", "Reproduction"},
	{"cmd/README.html", "Documents"},
}

var head = template.Must(template.New("head").Parse(`<nav aria-label="Site">{{range .}}<a href="{{.File}}"{{if .Here}} aria-current="page"{{end}}>{{.Title}}</a> {{end}}</nav>
`))

var document = template.Must(template.New("document").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}} – kvreplay</title>
<style>{{.Style}}
main{max-width:50rem;overflow-wrap:break-word}
main img{max-width:100%;height:auto}
pre{background:var(--soft);padding:.6rem;overflow-x:auto;white-space:pre}
blockquote{margin-left:1rem;border-left:3px solid var(--line);padding-left:1rem}
td,th{white-space:normal}
</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{{.Menu}}<main id="main">
{{.Body}}</main>
</body>
</html>
`))

// navStyle is the style of the menu in the pages of the program.
const navStyle = "nav{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:.7rem 0}nav a[aria-current]{font-weight:700}\n"

func (s *site) write() error {
	if entries, err := os.ReadDir(s.out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another folder with -out", s.out)
	}
	pages, err := tracked("*.md")
	if err != nil {
		return err
	}
	pages = slices.DeleteFunc(pages, func(p string) bool { return strings.Contains(p, "testdata/") || strings.HasPrefix(p, ".github/") })
	images := map[string]bool{}
	for _, p := range pages {
		if err := s.document(p, pages, images); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	for image := range images {
		content, err := os.ReadFile(image)
		if err != nil {
			return err
		}
		if err := s.put(image, content); err != nil {
			return err
		}
	}
	reports, err := s.reports()
	if err != nil {
		return err
	}
	for _, r := range reports {
		if err := s.report(r); err != nil {
			return err
		}
	}
	fmt.Printf("wrote %d documents, %d pictures and %d reports: open %s\n", len(pages), len(images), len(reports), filepath.Join(s.out, "index.html"))
	return nil
}

// tracked lists the files of the repository that match a pattern of git.
func tracked(pattern string) ([]string, error) {
	out, err := exec.Command("git", "ls-files", pattern).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: run this in the root of a clone", err)
	}
	return strings.Fields(string(out)), nil
}

func (s *site) put(name string, content []byte) error {
	to := filepath.Join(s.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o666)
}

// pageName returns the file of a document in the site.
func pageName(document string) string {
	if document == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(document, ".md") + ".html"
}

// menuFor returns the menu for a page.
func menuFor(page string) (template.HTML, error) {
	type link struct {
		File, Title string
		Here        bool
	}
	var links []link
	for _, m := range menu {
		links = append(links, link{strings.Repeat("../", strings.Count(page, "/")) + m.File, m.Title, m.File == page})
	}
	var b bytes.Buffer
	err := head.Execute(&b, links)
	return template.HTML(b.String()), err
}

// report runs the program and puts the menu into its page.
func (s *site) report(r report) error {
	run := exec.Command(s.program, r.args...)
	run.Stderr = os.Stderr
	page, err := run.Output()
	if err != nil {
		return fmt.Errorf("%s %s: %w", s.program, strings.Join(r.args, " "), err)
	}
	nav, err := menuFor(r.file)
	if err != nil {
		return err
	}
	before, after, ok := bytes.Cut(page, []byte("<header>"))
	before, styled, ok2 := bytes.Cut(before, []byte("</style>"))
	if !ok || !ok2 {
		return fmt.Errorf("%s: the page has no style or header", r.file)
	}
	return s.put(r.file, slices.Concat(before, []byte(navStyle+"</style>"), styled, []byte(nav), []byte("<header>"), after))
}

// document writes a document as HTML and notes its images.
func (s *site) document(name string, pages []string, images map[string]bool) error {
	markdown, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(html.WithUnsafe()), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	context := parser.NewContext(parser.WithIDs(ids{}))
	tree := md.Parser().Parse(text.NewReader(markdown), parser.WithContext(context))
	page := pageName(name)
	title := name
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 {
				title = string(n.Lines().Value(markdown))
			}
		case *ast.Link:
			n.Destination = []byte(target(name, string(n.Destination), pages, images))
		case *ast.Image:
			n.Destination = []byte(target(name, string(n.Destination), pages, images))
		case *ast.HTMLBlock:
			for _, image := range imagesOf(n.Lines().Value(markdown)) {
				images[path.Join(path.Dir(name), image)] = true
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var body, out bytes.Buffer
	if err := md.Renderer().Render(&body, markdown, tree); err != nil {
		return err
	}
	nav, err := menuFor(page)
	if err != nil {
		return err
	}
	err = document.Execute(&out, map[string]any{"Title": strings.Trim(title, "`"), "Style": template.CSS(render.Style() + navStyle), "Menu": nav, "Body": template.HTML(accessible(body.String()))})
	if err != nil {
		return err
	}
	return s.put(page, out.Bytes())
}

// emptyHead matches the head of a column without a title.
var emptyHead = regexp.MustCompile(`<th([^>]*)></th>`)

// accessible lets keyboards scroll tables and code, names the tables, and makes heads without a title
// plain cells.
func accessible(body string) string {
	var out strings.Builder
	for i, part := range strings.Split(body, "<table>") {
		if i > 0 {
			fmt.Fprintf(&out, `<div class="scroll" role="region" tabindex="0" aria-label="Table %d"><table>`, i)
		}
		out.WriteString(strings.ReplaceAll(part, "</table>", "</table></div>"))
	}
	return emptyHead.ReplaceAllString(strings.ReplaceAll(out.String(), "<pre>", `<pre tabindex="0">`), "<td$1></td>")
}

// imagesOf returns the files of src and srcset attributes.
func imagesOf(block []byte) (files []string) {
	for _, attribute := range []string{` src="`, ` srcset="`} {
		for _, part := range strings.Split(string(block), attribute)[1:] {
			file, _, _ := strings.Cut(part, `"`)
			files = append(files, file)
		}
	}
	return files
}

// target returns the address in the site for a link of a document: pages for documents, pictures as
// they are, and the repository for all other files.
func target(from, link string, pages []string, images map[string]bool) string {
	at, err := url.Parse(link)
	if err != nil || at.IsAbs() || at.Path == "" {
		return link
	}
	file := path.Join(path.Dir(from), at.Path)
	switch {
	case slices.Contains(pages, file):
		relative, err := filepath.Rel(path.Dir(pageName(from)), pageName(file))
		if err != nil {
			return link
		}
		at.Path = filepath.ToSlash(relative)
		return at.String()
	case slices.Contains([]string{".svg", ".png"}, path.Ext(file)):
		images[file] = true
		return link
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return link
	}
	return source + file
}

// ids names headings as the forge does.
type ids map[string]int

// Generate returns the name of a heading.
func (i ids) Generate(value []byte, _ ast.NodeKind) []byte { return []byte(i.name(string(value))) }

// Put reserves a name.
func (i ids) Put(value []byte) { i[string(value)]++ }

// name returns the text in lower case, with hyphens for spaces and without punctuation. A repeated
// name gets a number.
func (i ids) name(title string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, linkText.ReplaceAllString(title, "$1"))
	n := i[name]
	i[name]++
	if n > 0 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

// linkText matches a link in the source of a heading.
var linkText = regexp.MustCompile(`\[([^\[\]]*)\]\([^()\s]+\)`)
