package offline

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kvreplay/kvreplay/datasets/prompts"
)

// Places say where the sources are; what is empty is looked for.
type Places struct {
	GoRoot string   // of a Go distribution with its sources; else $GOROOT or what `go env GOROOT` says
	Python string   // Python's standard library; else what python3 says
	Texts  []string // files of plain text in UTF-8; else Newton's Opticks of the Go distribution
}

// sources are read when a task first needs them.
type sources struct {
	places Places
	read   func(path string) ([]byte, error) // a text
	golang *goTree
	python *tree
	texts  []*text
	used   []prompts.Source
}

// errNoPython marks the error that there is no Python; all other tasks can be made.
var errNoPython = errors.New("no standard library of Python")

// goRoot finds the Go distribution.
func (p Places) goRoot() (string, error) {
	root, from := p.GoRoot, "given"
	if root == "" {
		root, from = os.Getenv("GOROOT"), "of $GOROOT"
	}
	if root == "" {
		root, from = said("go", "env", "GOROOT"), "that go names"
	}
	if root == "" {
		return "", errors.New("no Go distribution: neither $GOROOT nor a go command; name one with its sources by --goroot DIR")
	}
	if _, err := os.Stat(filepath.Join(root, "src", "fmt", "print.go")); err != nil {
		return "", fmt.Errorf("the Go distribution %s has no sources: %w; name one with them by --goroot DIR", from, err)
	}
	return root, nil
}

// pythonLibrary finds Python's standard library.
func (p Places) pythonLibrary() (string, error) {
	folder := p.Python
	if folder == "" {
		folder = said("python3", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))")
	}
	if folder == "" {
		return "", fmt.Errorf("%w: no python3 command; name the folder by --python DIR", errNoPython)
	}
	if _, err := os.Stat(filepath.Join(folder, "os.py")); err != nil {
		if p.Python != "" {
			return "", fmt.Errorf("--python: no standard library of Python: %w", err)
		}
		return "", fmt.Errorf("%w: %w; name the folder by --python DIR", errNoPython, err)
	}
	return folder, nil
}

// said is the first line that a program prints, "" if it cannot be run. The go command
// is kept from fetching another version for the folder that it runs in.
func said(program string, args ...string) string {
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := c.Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// openGo reads the Go distribution.
func (s *sources) openGo() (*goTree, error) {
	if s.golang != nil {
		return s.golang, nil
	}
	root, err := s.places.goRoot()
	if err != nil {
		return nil, err
	}
	t, err := readGo(os.DirFS(root))
	if err != nil {
		return nil, fmt.Errorf("read the sources of Go: %w", err)
	}
	s.golang = t
	s.used = append(s.used, t.source())
	return t, nil
}

// openPython reads Python's standard library.
func (s *sources) openPython() (*tree, error) {
	if s.python != nil {
		return s.python, nil
	}
	folder, err := s.places.pythonLibrary()
	if err != nil {
		return nil, err
	}
	t, err := readPython(os.DirFS(folder), filepath.Base(folder))
	if err != nil {
		return nil, fmt.Errorf("read the standard library of Python: %w", err)
	}
	s.python = t
	s.used = append(s.used, t.source())
	return t, nil
}

// openTexts reads the texts.
func (s *sources) openTexts() ([]*text, error) {
	if s.texts != nil {
		return s.texts, nil
	}
	var list []*text
	for _, path := range s.places.Texts {
		content, err := s.read(path)
		if err != nil {
			return nil, fmt.Errorf("read text: %w", err)
		}
		t, err := parseText(content)
		if err != nil {
			return nil, fmt.Errorf("read text %s: %w", path, err)
		}
		t.name, t.licence = filepath.Base(path), "as the user's file"
		list = append(list, t)
	}
	if len(list) == 0 {
		root, err := s.places.goRoot()
		if err != nil {
			return nil, fmt.Errorf("%w, or a text by --text FILE", err)
		}
		t, err := readOpticks(os.DirFS(root))
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	for _, t := range list {
		s.used = append(s.used, t.source())
	}
	s.texts = list
	return list, nil
}
