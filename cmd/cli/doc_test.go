package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/cmd/cli"
	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/policies/all"
)

// TestDocs runs every command line of every Markdown file in the repository: the lines that begin
// with `$ kvreplay` in ```console blocks. They run from the root of the repository. The commands of one
// block share an empty folder, which takes the place of /tmp. Blocks with s3:// find a bucket of
// traces. A backslash at the end continues a line. `> FILE` at the end redirects stdout. Text after
// `|` or `#` is not run. A command that fails, fails the test. Lines after the last command of a block
// are its output on stdout. A last line … stands for the rest of it. -update rewrites them.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every command of the documents")
	}
	t.Chdir(filepath.Join("..", ".."))
	commands := 0
	for _, path := range markdownFiles(t) {
		text, err := os.ReadFile(path)
		fatal.If(t, err)
		for _, block := range consoleBlocks(string(text)) {
			commands += len(block.commands)
			t.Run(fmt.Sprintf("%s:%d", filepath.ToSlash(path), block.line), func(t *testing.T) {
				if made := block.shown(block.run(t)); made != block.output {
					rewritten(t, path, strings.Replace(content(t, path), "\n"+block.output, "\n"+made, 1), "Docs/"+filepath.ToSlash(path))
				}
			})
		}
	}
	if commands == 0 {
		t.Error("no document has a command, expected some")
	}
}

// markdownFiles returns all *.md below the working directory, except in hidden folders.
func markdownFiles(t *testing.T) (paths []string) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			paths = append(paths, path)
		}
		return nil
	})
	fatal.If(t, err)
	return paths
}

// block is one ```console block.
type block struct {
	line     int // number of its first line
	commands []string
	output   string // the lines after the last command, empty without any
}

// rest is the last line of an output that a document shortens.
const rest = "…\n"

// shown is the part of the last command's output that the document shows.
func (b *block) shown(stdout string) string {
	switch before, shortened := strings.CutSuffix(b.output, rest); {
	case b.output == "":
		return ""
	case shortened:
		lines := strings.SplitAfter(stdout, "\n")
		return strings.Join(lines[:min(strings.Count(before, "\n"), len(lines))], "") + rest
	}
	return stdout
}

// consoleBlocks finds the blocks of a document with the commands in them.
func consoleBlocks(text string) (blocks []block) {
	inside, continued := false, false
	for i, whole := range strings.Split(text, "\n") {
		line := strings.TrimSpace(whole)
		switch {
		case !inside && line == "```console":
			inside = true
			blocks = append(blocks, block{line: i + 2})
			continue
		case line == "```":
			inside, continued = false, false
		}
		if !inside {
			continue
		}
		b := &blocks[len(blocks)-1]
		switch {
		case continued:
			b.commands[len(b.commands)-1] += " " + strings.TrimSuffix(line, "\\")
		case strings.HasPrefix(line, "$ kvreplay"):
			b.commands, b.output = append(b.commands, strings.TrimSuffix(strings.TrimPrefix(line, "$ "), "\\")), ""
		default:
			b.output += whole + "\n"
			continue
		}
		continued = strings.HasSuffix(line, "\\")
	}
	return blocks
}

// run executes the commands in order, in this process. It returns the last one's output, unless a
// file takes it.
func (b *block) run(t *testing.T) string {
	tmp := t.TempDir()
	if strings.Contains(strings.Join(b.commands, " "), "s3://") {
		startS3(t, ".")
	}
	var printed bytes.Buffer
	for _, command := range b.commands {
		printed.Reset()
		args, err := words(command, tmp)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		var stderr bytes.Buffer
		stdout := io.Writer(&printed)
		if n := len(args); n > 2 && args[n-2] == ">" {
			file, err := os.Create(args[n-1])
			fatal.If(t, err)
			defer file.Close()
			stdout, args = file, args[:n-2]
		}
		if code := cli.Main(all.Table(), args[1:], stdout, &stderr); code != 0 {
			t.Fatalf("%s\nexit code %d: %s", command, code, stderr.String())
		}
	}
	return printed.String()
}

// words splits a command line as a shell does, with the syntax that documents use: quotes and patterns
// of files. tmp takes the place of /tmp.
func words(command, tmp string) (list []string, err error) {
	var word strings.Builder
	quote, started, pattern := rune(0), false, false
	end := func() {
		text := strings.ReplaceAll(word.String(), "/tmp", tmp)
		if found, err := filepath.Glob(text); pattern && err == nil && len(found) > 0 {
			list = append(list, found...)
		} else if started {
			list = append(list, text)
		}
		word.Reset()
		started, pattern = false, false
	}
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, started = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		case quote == 0 && (r == '|' || r == '#' && !started):
			end()
			return list, nil
		default:
			started, pattern = true, pattern || quote == 0 && r == '*'
			word.WriteRune(r)
		}
	}
	end()
	if quote != 0 {
		err = fmt.Errorf("quote %c is not closed", quote)
	}
	return list, err
}

func TestConsoleBlocks(t *testing.T) {
	text := "```console\n$ kvreplay a \\\n    'b c' /tmp/d # e\noutput\n$ ls\n$ kvreplay f | head\n f\n…\n```\n$ kvreplay g\n```sh\n$ kvreplay h\n```\n"
	blocks := consoleBlocks(text)
	if len(blocks) != 1 || len(blocks[0].commands) != 2 || blocks[0].line != 2 {
		t.Fatalf("found %+v", blocks)
	}
	if b := blocks[0]; b.shown(" g\nh\n") != " g\n…\n" || b.shown("") != "…\n" || (&block{output: " f\n"}).shown("g\nh\n") != "g\nh\n" {
		t.Errorf("output %q shows %q of another", b.output, b.shown(" g\nh\n"))
	}
	if got, err := words("kvreplay doc_*st.go 'doc_*st.go'", ""); err != nil || strings.Join(got, "|") != "kvreplay|doc_test.go|doc_*st.go" {
		t.Errorf("patterns: %q, %v", got, err)
	}
	for i, want := range []string{"kvreplay|a|b c|/t/d", "kvreplay|f"} {
		got, err := words(blocks[0].commands[i], "/t")
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("command %d: %q, %v, want %q", i, got, err, want)
		}
	}
}
