package ruler

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kvreplay/kvreplay/datasets/bom"
	"github.com/kvreplay/kvreplay/datasets/prompts"
	"github.com/kvreplay/kvreplay/internal/files"
)

// Roles of texts in a manifest.
const (
	roleWords    = "words"
	roleEssays   = "essays"
	roleSquad    = "squad"
	roleHotpotQA = "hotpotqa"
)

// originals are what the roles have in RULER, and where it is had from.
var originals = map[string]struct{ title, origin string }{
	roleEssays:   {"Paul Graham's essays", "NVIDIA/RULER, scripts/data/synthetic/json/download_paulgraham_essay.py"},
	roleSquad:    {"SQuAD 2.0, development set", "rajpurkar.github.io/SQuAD-explorer, dev-v2.0.json"},
	roleHotpotQA: {"HotpotQA, development set, distractor setting", "hotpotqa.github.io, hotpot_dev_distractor_v1.json"},
}

// load reads the texts that the tasks need and lists them.
func (m *maker) load(ctx context.Context, tasks []task) error {
	m.qa, m.stands = make(map[string]*questions), make(map[string]string)
	needed := make(map[string]bool)
	for _, t := range tasks {
		for _, role := range t.texts {
			needed[role] = true
		}
	}
	for _, step := range []struct {
		role, given string
		load        func(context.Context) error
	}{{roleWords, "", m.loadWords}, {roleEssays, m.options.Essays, m.loadEssays}, {roleSquad, m.options.Squad, m.loadSquad}, {roleHotpotQA, m.options.HotpotQA, m.loadHotpotQA}} {
		if !needed[step.role] {
			if err := checkGiven(step.role, step.given); err != nil {
				return err
			}
			continue
		}
		if err := step.load(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkGiven refuses a name that stands for nothing, though no task asks for what it names.
func checkGiven(role, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("read %s: %w", role, err)
	}
	return nil
}

// title names the text of a role for messages.
func (m *maker) title(role string) string {
	for _, s := range m.sources {
		if s.Role == role {
			return s.Name
		}
	}
	return role
}

func (m *maker) loadWords(context.Context) error {
	list, text := loadWords()
	m.words = list
	m.sources = append(m.sources, prompts.Source{
		Role: roleWords, Name: "wonderwords 3.0.1: nouns, adjectives, verbs", Digest: prompts.Digest(text),
		Licence: "MIT", Origin: "pypi.org/project/wonderwords",
	})
	return nil
}

func (m *maker) loadEssays(ctx context.Context) error {
	if m.options.Essays == "" {
		text := unpack(opticksFile)
		m.essay = newEssay(string(text[bytes.Index(text, []byte("OPTICKS:")):])) // after who transcribed it
		m.standIn(roleEssays, "Isaac Newton, Opticks (1730)", text, "public domain", "the Go distribution, src/testdata/Isaac.Newton-Opticks.txt")
		return nil
	}
	text, raw, err := readEssays(ctx, m.options.Essays)
	if err != nil {
		return err
	}
	m.essay = newEssay(text)
	m.given(roleEssays, m.options.Essays, raw)
	return nil
}

func (m *maker) loadSquad(ctx context.Context) error {
	return m.loadQuestions(ctx, roleSquad, m.options.Squad, parseSquad, (*goSet).single)
}

func (m *maker) loadHotpotQA(ctx context.Context) error {
	return m.loadQuestions(ctx, roleHotpotQA, m.options.HotpotQA, parseHotpotQA, (*goSet).double)
}

func (m *maker) loadQuestions(ctx context.Context, role, path string, parse func([]byte) (*questions, error), standIn func(*goSet) *questions) error {
	if path == "" {
		set, text := loadGo()
		m.qa[role] = standIn(set)
		m.standIn(role, "documentation of Go's standard library (go1.26.8), questions made by rule", text, "BSD-3-Clause", "go.dev")
		return nil
	}
	content, err := files.Read(ctx, path)
	if err != nil {
		return fmt.Errorf("read %s: %w; the original is %s (%s)", role, err, originals[role].title, originals[role].origin)
	}
	text, err := bom.Bytes(content)
	if err != nil {
		return fmt.Errorf("read %s: %s: %w", role, path, err)
	}
	set, err := parse(text)
	if err != nil {
		return fmt.Errorf("read %s: %s: %w", role, path, err)
	}
	m.qa[role] = set
	m.given(role, path, content)
	return nil
}

// given lists a file of the user.
func (m *maker) given(role, path string, content []byte) {
	m.sources = append(m.sources, prompts.Source{
		Role: role, Name: filepath.Base(path), Digest: prompts.Digest(content), Licence: "as its owner states", Origin: "file of the user",
	})
}

// standIn lists a text that is built in.
func (m *maker) standIn(role, name string, content []byte, licence, origin string) {
	m.stands[role] = fmt.Sprintf("%s, in place of %s", name, originals[role].title)
	m.sources = append(m.sources, prompts.Source{
		Role: role, Name: name, Digest: prompts.Digest(content), Licence: licence, Origin: origin, Substitute: originals[role].title,
	})
}
