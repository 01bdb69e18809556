package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/datasets/offline"
	"github.com/kvreplay/kvreplay/datasets/prompts/promptstest"
)

const queries = "../../datasets/offline/testdata/queries.txt"

func TestMakeOffline(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "text.jsonl")
	args := []string{"datasets", "make", "offline", "-o", path, "--task", "passage_count_text,summary_text", "--length", "700", "--samples", "2", "--text", queries}
	stdout, stderr := made(t, args...)
	if stdout != "" || !strings.Contains(stderr, "4 prompts, counted by cl100k_base") {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	rows, m := promptstest.Read(t, path)
	if len(rows) != 4 || rows[0].Task != "summary_text" || rows[3].ID != "passage_count_text-1" {
		t.Fatalf("%v", rows)
	}
	if got := strings.Join(m.Command, " "); got != "kvreplay datasets make offline --length=700 --samples=2 --task=passage_count_text --task=summary_text --text="+queries {
		t.Errorf("command of the manifest: %s", got)
	}
	again := filepath.Join(folder, "again.jsonl")
	args[4] = again
	made(t, args...)
	if content(t, path) != content(t, again) {
		t.Error("the same command made other prompts")
	}
}

// What is refused leaves nothing behind, and says why.
func TestMakeOfflineRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"output missing":         {},
		"did you mean qa_text":   {"-o", "OUT", "--task", "qa_txt"},
		"--samples 0":            {"-o", "OUT", "--samples", "0"},
		"--length -1":            {"-o", "OUT", "--length", "-1"},
		"length too short":       {"-o", "OUT", "--task", "summary_text", "--length", "513", "--text", queries},
		"has no sources":         {"-o", "OUT", "--goroot", "."},
		"read text: open no.txt": {"-o", "OUT", "--task", "qa_text", "--text", "no.txt"},
		"unexpected argument":    {"-o", "OUT", "novel.txt"},
	} {
		folder := t.TempDir()
		for i := range args {
			args[i] = strings.Replace(args[i], "OUT", filepath.Join(folder, "out.jsonl"), 1)
		}
		code, _, stderr := run(append([]string{"datasets", "make", "offline"}, args...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stderr %q, want %q", args, code, stderr, want)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", args, left, err)
		}
	}
}

// Every task is in the help and in the document.
func TestOfflineTasksAreDocumented(t *testing.T) {
	help, _ := made(t, "datasets", "make", "offline", "--help")
	readme := content(t, "../../datasets/offline/README.md")
	for _, x := range offline.Tasks() {
		if !strings.Contains(help, "\n  "+x.Name+" ") || !strings.Contains(readme, "`"+x.Name+"`") {
			t.Errorf("%s is not in the help or in the document", x.Name)
		}
	}
}
