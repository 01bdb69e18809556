package main

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/browsertest"
	"github.com/kvreplay/kvreplay/internal/fatal"
)

// built writes the site with a small board and returns its folder.
func built(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles kvreplay and replays the corpus")
	}
	t.Chdir(filepath.Join("..", ".."))
	dir := t.TempDir()
	s := site{program: filepath.Join(dir, "kvreplay"), results: filepath.Join(dir, "results"), out: filepath.Join(dir, "site")}
	traces, err := filepath.Glob("datasets/corpus/[dw]*.parquet")
	fatal.If(t, err)
	for _, command := range [][]string{
		{"go", "build", "-trimpath", "-o", s.program, "./cmd/kvreplay"},
		append([]string{s.program, "replay", "--policy", "lru,opt,fifo", "--capacity", "1.25x,1.5x,2x,3x,4x", "--per", "request", "--out", s.results}, traces...),
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	fatal.If(t, s.write())
	if err := s.write(); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second site in the same folder: %v", err)
	}
	return s.out
}

var (
	links   = regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	anchors = regexp.MustCompile(`\bid="([^"]*)"`)
	scripts = regexp.MustCompile(`(?s)<script.*?</script>|<style.*?</style>`)
)

// Every link of every page leads to a file of the site, and to an element in it. The pages of the
// menu have no fault of accessibility in a browser, fit a phone, and report no error.
func TestSite(t *testing.T) {
	dir := built(t)
	pages := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".html" {
			text, err := os.ReadFile(path)
			pages[path] = scripts.ReplaceAllString(string(text), "")
			return err
		}
		return err
	})
	if err != nil || len(pages) < 50 {
		t.Fatal(err, len(pages))
	}
	for at, page := range pages {
		for _, found := range links.FindAllStringSubmatch(page, -1) {
			link, err := url.Parse(strings.ReplaceAll(found[1], "&amp;", "&"))
			if err != nil || link.IsAbs() {
				continue
			}
			to := at
			if link.Path != "" {
				to = filepath.Join(filepath.Dir(at), filepath.FromSlash(link.Path))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s leads nowhere", at, found[1])
			}
			if link.Fragment != "" && !slices.ContainsFunc(anchors.FindAllStringSubmatch(pages[to], -1), func(id []string) bool { return id[1] == link.Fragment }) {
				t.Errorf("%s: %s has no element %s", at, to, link.Fragment)
			}
		}
	}
	for _, part := range []struct{ page, has string }{{"leaderboard.html", "lru-2"}, {"submissions.html", "fewer misses than fifo"}, {"index.html", "aria-current"}} {
		if !strings.Contains(pages[filepath.Join(dir, part.page)], part.has) {
			t.Errorf("%s lacks %q", part.page, part.has)
		}
	}
	b := browsertest.New(t)
	for _, m := range menu {
		b.Open(filepath.Join(dir, filepath.FromSlash(m.File)))
		for _, text := range b.Violations(375, 1024) {
			t.Errorf("%s: %s", m.File, text)
		}
	}
	for _, text := range b.Complaints() {
		t.Error(text)
	}
}
