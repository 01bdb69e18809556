package cli

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/submission"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/verify"
)

// submissionsFolder holds the submitted policies, from the root of the repository.
var submissionsFolder = filepath.Join("policies", "submissions")

func submitCommand(known policies.Table) command {
	return command{
		use:   "submit FOLDER",
		short: "Submit a policy to the board, or check submissions",
		long: `Submit the exact policy in FOLDER, a Go package with tests and a card.yaml. Run this in the root of
a clone, with Go installed. kvreplay copies the package to policies/submissions and adds it to the
table. Then it runs the tests, replays the corpus, writes the rows and checks the card's claims.
If a step fails, the clone is left as it was. policies/SHARE.md describes the card.`,
		example:  "  kvreplay submit ../mine/mine\n  kvreplay submit check",
		args:     exactlyOne("folder of a policy"),
		run:      func(c *call) error { return submit(c, known) },
		commands: []command{checkSubmissionsCommand(known)},
	}
}

// submitted is a policy on its way into the clone.
type submitted struct {
	from string // the author's folder
	name string // of the package
	dir  string // in the clone
	old  string // import path of the author's package, "" if from is dir
}

func submit(c *call, known policies.Table) (err error) {
	if module, err := moduleAt(".", ""); err != nil || module != moduleOf {
		return usagef("submit: the current folder is not the root of a clone of %s: go there first", moduleOf)
	}
	s, err := newSubmitted(c.args[0], known)
	if err != nil {
		return err
	}
	registered, err := os.ReadFile(policyTable)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	if s.old != "" {
		defer func() {
			if err != nil {
				err = errors.Join(err, os.RemoveAll(s.dir), files.Write(policyTable, registered))
			}
		}()
		if err := s.copy(); err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		if err := registerPolicy(path.Join(moduleOf, filepath.ToSlash(s.dir)), "policies.Submission("+s.name+".Entry)"); err != nil {
			return err
		}
	}
	pkg := "./" + filepath.ToSlash(s.dir)
	for _, step := range []struct {
		does string
		args []string
	}{
		{"vet", []string{"vet", pkg}},
		{"run its tests, which call the conformance kit", []string{"test", pkg}},
		{"replay the corpus and check the claims", []string{"run", "./cmd/kvreplay", "submit", "check", s.dir, "--write"}},
	} {
		fmt.Fprintf(c.stderr, "kvreplay: %s: go %s\n", step.does, strings.Join(step.args, " "))
		run := exec.CommandContext(c.Context(), "go", step.args...)
		run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
		run.Stdout, run.Stderr = c.stdout, c.stderr
		if err := run.Run(); err != nil {
			if c.Context().Err() != nil {
				return c.Context().Err()
			}
			return fmt.Errorf("submit: go %s: %w: see the messages above, correct %s and try again", strings.Join(step.args, " "), err, s.from)
		}
	}
	fmt.Fprintf(c.stdout, "\nwrote %s and its line in %s\nnext: commit both and open a pull request\n", s.dir, policyTable)
	return nil
}

// newSubmitted checks the card and the package of a folder.
func newSubmitted(from string, known policies.Table) (*submitted, error) {
	card, err := submission.ReadCard(from)
	if err != nil {
		return nil, err
	}
	s := &submitted{from: from}
	tests := false
	err = eachGoFile(from, func(name string, text []byte) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			s.name = file.Name.Name
		} else {
			tests = true
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("submit: %w", err)
	case s.name == "":
		return nil, fmt.Errorf("submit: folder %s has no Go package: kvreplay policies new NAME --dir FOLDER writes one", from)
	case !tests:
		return nil, fmt.Errorf("submit: folder %s has no *_test.go: call policytest.Run, as kvreplay policies new writes it", from)
	case reservedPackage(s.name):
		return nil, fmt.Errorf("submit: package %s has a name with another meaning: rename it", s.name)
	}
	s.dir = filepath.Join(submissionsFolder, s.name)
	if same(from, s.dir) {
		return s, nil
	}
	name, _, _ := strings.Cut(card.Policy, ":")
	if slices.Contains(known.Names(), name) {
		return nil, fmt.Errorf("submit: a policy %s exists: choose another name", name)
	}
	if _, err := os.Lstat(s.dir); err == nil {
		return nil, fmt.Errorf("submit: %s exists: rename your package, or edit that one and run kvreplay submit %s", s.dir, s.dir)
	}
	s.old, err = importPath(from)
	return s, err
}

// same reports whether two paths are one folder.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// importPath returns the path by which Go imports the package in a folder.
func importPath(folder string) (string, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	for below := ""; ; dir, below = filepath.Dir(dir), path.Join(filepath.Base(dir), below) {
		module, err := moduleAt(dir, "")
		if err != nil || module != "" {
			return path.Join(module, below), err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("submit: %s is in no Go module: add a go.mod, as kvreplay policies new --dir writes it", folder)
		}
	}
}

// eachGoFile calls f with the Go files of a folder, by name.
func eachGoFile(folder string, f func(name string, text []byte) error) error {
	paths, err := files.Matching(folder, "*.go")
	for _, p := range paths {
		text, err := files.ReadSmall(p)
		if err != nil {
			return err
		}
		if err := f(filepath.Base(p), text); err != nil {
			return err
		}
	}
	return err
}

// copy copies the Go files and the card. Their package gets the import path that it has in the clone.
func (s *submitted) copy() error {
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return err
	}
	card, err := files.ReadSmall(filepath.Join(s.from, submission.CardFile))
	if err != nil {
		return err
	}
	if err := files.Write(filepath.Join(s.dir, submission.CardFile), card); err != nil {
		return err
	}
	return eachGoFile(s.from, func(name string, text []byte) error {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, of := range file.Imports {
			imported, err := strconv.Unquote(of.Path.Value)
			if err != nil {
				return err
			}
			domain, _, _ := strings.Cut(imported, "/")
			if imported != s.old && strings.Contains(domain, ".") && !strings.HasPrefix(imported, moduleOf+"/") {
				return fmt.Errorf("%s imports %s: a submission may import the standard library and kvreplay only", name, imported)
			}
		}
		moved := strings.ReplaceAll(string(text), strconv.Quote(s.old), strconv.Quote(path.Join(moduleOf, filepath.ToSlash(s.dir))))
		return files.Write(filepath.Join(s.dir, name), []byte(moved))
	})
}

type checkFlags struct {
	table          policies.Table
	traces, format string
	write          bool
}

func checkSubmissionsCommand(known policies.Table) command {
	f := checkFlags{table: known}
	return command{
		use:   "check [FOLDER...]",
		short: "Replay submissions and check their rows and claims",
		long: `Replay submitted policies on the corpus. Compare the rows of their folders with the replay, field by
field, and check the claims of their cards. A claim holds if its policy misses significantly less
(p < 0.05). FOLDER is a submission (default: all of policies/submissions). The exit code is 1 if
something does not hold.`,
		example: "  kvreplay submit check\n  kvreplay submit check policies/submissions/lru2 --format json",
		args:    cobra.ArbitraryArgs,
		flags: func(fl *flagSet) {
			fl.StringVar(&f.traces, "traces", filepath.Join("datasets", "corpus"), "find the traces of the corpus in this `FOLDER`")
			fl.BoolVar(&f.write, "write", false, "write the rows of the replay in the place of those of the folders")
			fl.format(&f.format, "", "table", "markdown", "json", "html")
		},
		run: f.run,
	}
}

// checkedSubmission is a submission and the result of its replay.
type checkedSubmission struct {
	Folder string `json:"folder"`
	*submission.Card
	*submission.Judgement
	// Rows is the number of rows in the folder. Holding is the number of rows that equal the replay.
	Rows    int `json:"rows"`
	Holding int `json:"holding"`
	// Verified is the date of the program's commit (UTC), empty if unknown.
	Verified string `json:"verified"`

	expected int    // rows of the replay
	fault    string // the first row that does not hold
}

func (f *checkFlags) run(c *call) error {
	folders := c.args
	if len(folders) == 0 {
		cards, err := filepath.Glob(filepath.Join(submissionsFolder, "*", submission.CardFile))
		if err != nil || len(cards) == 0 {
			return fmt.Errorf("submit check: no %s here: name a submission, or go to the root of a clone", filepath.Join(submissionsFolder, "*", submission.CardFile))
		}
		folders = slice.Map(cards, filepath.Dir)
	}
	var all []*checkedSubmission
	for _, folder := range folders {
		s, err := f.check(c, folder)
		if err != nil {
			return fmt.Errorf("submit check: %w", err)
		}
		all = append(all, s)
	}
	if err := f.print(c, all); err != nil {
		return err
	}
	for _, s := range all {
		if s.fault != "" {
			return fmt.Errorf("submit check: %s: %d of %d rows differ from their replay: %s. --write replaces them", s.Policy, s.Rows-s.Holding, s.Rows, s.fault)
		}
		for _, v := range s.Verdicts {
			if !v.Holds {
				return fmt.Errorf("submit check: %s: a claim does not hold: %s: remove it from %s", s.Policy, v.Claim, filepath.Join(s.Folder, submission.CardFile))
			}
		}
	}
	return nil
}

func (f *checkFlags) check(c *call, folder string) (*checkedSubmission, error) {
	card, err := submission.ReadCard(folder)
	if err != nil {
		return nil, err
	}
	spec, err := f.table.Parse(card.Policy)
	if err != nil {
		return nil, fmt.Errorf("card: %s: %w", filepath.Join(folder, submission.CardFile), err)
	}
	if t := spec.Entry.Traits; t.Lossy || t.Windowed || t.Offline {
		return nil, fmt.Errorf("policy %q: expected an exact policy with a capacity that does not need the future", card.Policy)
	}
	card.Policy = spec.Name()
	rows, err := f.replay(c, card)
	if err != nil {
		return nil, err
	}
	s := &checkedSubmission{Folder: filepath.ToSlash(folder), Card: card, Verified: dateOfCommit()}
	if s.Judgement, err = card.Judge(rows, defaultsOf(f.table)); err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(rows), func(r result.Row) bool { return r.Policy != card.Policy })
	s.expected = len(own)
	file := filepath.Join(folder, submission.RowsFile)
	if f.write {
		if err := files.WriteBy(file, func(w io.Writer) error { // equal rows give equal bytes
			z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
			if err != nil {
				return err
			}
			return errors.Join(result.WriteJSONL(z, own), z.Close())
		}); err != nil {
			return nil, err
		}
	}
	return s, f.verify(c.Context(), s, file)
}

// replay replays the policies of a card on the latest version of the corpus.
func (f *checkFlags) replay(c *call, card *submission.Card) (rows []result.Row, err error) {
	o, err := byRequest(f.table, card.Policies(), corpus.Capacities)
	if err != nil {
		return nil, err
	}
	paths := slice.Map(corpus.Latest().Part(corpus.Whole), func(name string) string { return filepath.Join(f.traces, name) })
	if _, err := os.Stat(paths[0]); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: name the folder datasets/corpus of a clone with --traces", err)
	}
	return replayAll(c, paths, o)
}

// verify compares the rows of a submission's file with their replay.
func (f *checkFlags) verify(ctx context.Context, s *checkedSubmission, file string) error {
	rows, err := result.ReadRows(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: --write writes it", err)
	}
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(rows, func(r result.Row) bool { return r.Policy != s.Policy }); i >= 0 {
		return fmt.Errorf("%s: row %d is of policy %s, expected %s alone", file, i+1, rows[i].Policy, s.Policy)
	}
	report, err := verify.Rows(ctx, rows, verify.Options{Policies: f.table, Traces: []string{f.traces}, Workers: runtime.GOMAXPROCS(0), Sample: verify.All})
	if err != nil {
		return err
	}
	s.Rows, s.Holding = len(rows), report.Holding
	if i := slices.IndexFunc(report.Outcomes, func(o verify.Outcome) bool { return o.Verdict != verify.Holds }); i >= 0 {
		o := report.Outcomes[i]
		s.fault = fmt.Sprintf("row %d %s", o.Row, o.Verdict)
		if o.Reason != "" {
			s.fault += ": " + o.Reason
		}
	} else if len(report.Gaps) > 0 || len(rows) != s.expected {
		s.fault = "cells or requests of the corpus are missing"
	}
	return nil
}

// dateOfCommit returns the day of the program's commit, or "".
func dateOfCommit() string {
	for line := range strings.Lines(versionText()) {
		if at, ok := strings.CutPrefix(line, "built"); ok && strings.Contains(at, "T") {
			day, _, _ := strings.Cut(strings.TrimSpace(at), "T")
			return day
		}
	}
	return ""
}

func (f *checkFlags) print(c *call, all []*checkedSubmission) error {
	t := table.New("policy", "× OPT [95 %]", "held out", "rows", "claims", "verified", "authors", "licence", "source")
	claims := table.New("policy", "claim", "ratio [95 %]", "p", "holds")
	claims.Title = "Claims"
	held := 0
	for _, s := range all {
		good, ok := 0, s.fault == ""
		for _, v := range s.Verdicts {
			p := "-"
			switch {
			case v.P != nil && *v.P < 0.001:
				p = "< 0.001"
			case v.P != nil:
				p = fmt.Sprintf("%.3f", *v.P)
			}
			claims.Add(s.Policy, v.Claim.String(), interval(v.Ratio), p, map[bool]string{true: "yes", false: "no"}[v.Holds])
			if v.Holds {
				good++
			}
		}
		if ok && good == len(s.Verdicts) {
			held++
		}
		t.Add(s.Policy, interval(s.XOpt), interval(s.HeldOut), fmt.Sprintf("%d of %d", s.Holding, s.Rows),
			fmt.Sprintf("%d of %d", good, len(s.Verdicts)), s.Verified, strings.Join(s.Authors, ", "), s.Licence, s.Source)
	}
	t.Title = "Submitted policies, replayed on the corpus"
	t.Notes = []string{"rows: those that equal their replay in every field. claims: those that hold with p < 0.05.",
		"verified: the day of the commit whose program replayed them."}
	report := &table.Report{Title: "Submissions", Tables: []*table.Table{t, claims}}
	finding := fmt.Sprintf("%d of %s hold: all rows equal their replay, and all claims are true.", held, count(len(all), "submission"))
	return c.report(f.format, all, finding, report)
}

// interval returns a figure with its 95 % interval.
func interval(f *board.Figure) string {
	switch {
	case f == nil:
		return "-"
	case f.Bounded() && f.High != nil:
		return fmt.Sprintf("%.3f [%.3f, %.3f]", f.Value, *f.Low, *f.High)
	}
	return fmt.Sprintf("%.3f", f.Value)
}
