// Package submission reads the cards of submitted policies and checks their claims against result
// rows.
package submission

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/kvreplay/kvreplay/datasets/corpus"
	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/printable"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/board"
	"github.com/kvreplay/kvreplay/metrics/result"
)

// The files of a submission besides its policy.
const (
	CardFile = "card.yaml"
	RowsFile = "rows.jsonl.gz"
)

// Card describes a submitted policy.
type Card struct {
	// Policy is the name of the policy, with options if it has any, as rows state it.
	Policy string `yaml:"policy" json:"policy"`
	// Authors are the people who submit it.
	Authors []string `yaml:"authors" json:"authors"`
	// Source is the paper of the policy, or "new".
	Source string `yaml:"source" json:"source"`
	// Licence is the SPDX identifier of the code's licence.
	Licence string `yaml:"licence" json:"licence"`
	// Link is the address of a paper or of code, empty without one.
	Link string `yaml:"link,omitempty" json:"link,omitempty"`
	// Claims are what the authors state about the policy's misses.
	Claims []Claim `yaml:"claims" json:"claims"`
}

// Claim states that the policy misses significantly less than another on traces of the corpus.
type Claim struct {
	// BetterThan is the other policy.
	BetterThan string `yaml:"better_than" json:"better_than"`
	// Capacity is one of the corpus's capacities. Empty means all.
	Capacity string `yaml:"capacity,omitempty" json:"capacity,omitempty"`
	// Split is the part of the corpus. Empty means all traces.
	Split corpus.Split `yaml:"split,omitempty" json:"split,omitempty"`
}

// String returns the claim as text: "fewer misses than lru at 2x on the held-out traces".
func (c Claim) String() string {
	s := "fewer misses than " + c.BetterThan
	if c.Capacity != "" {
		s += " at " + c.Capacity
	}
	if c.Split != "" && c.Split != corpus.Whole {
		s += " on the " + string(c.Split) + " traces"
	}
	return s
}

// example shows the form of a card in errors.
const example = `policy: mine
authors: [Ada Lovelace]
source: new
licence: Apache-2.0
claims:
  - {better_than: lru, capacity: 2x, split: held-out}
`

// licence is the form of an SPDX identifier or of an expression of several.
var licence = regexp.MustCompile(`^[A-Za-z0-9.+() -]+$`)

// ReadCard reads the card in a folder. Errors name the file and show the form of a card.
func ReadCard(folder string) (*Card, error) {
	path := filepath.Join(folder, CardFile)
	text, err := files.ReadSmall(path)
	if err != nil {
		return nil, fmt.Errorf("card: %w. A card is\n%s", err, example)
	}
	var c Card
	if err := yaml.Load(text, &c, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return nil, fmt.Errorf("card: %s: %w. A card is\n%s", path, names.OfYAML(err, text, c), example)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("card: %s: %w", path, err)
	}
	return &c, nil
}

// check returns an error if a field is missing or has no meaning.
func (c *Card) check() error {
	for _, text := range slices.Concat([]string{c.Policy, c.Source, c.Licence, c.Link}, c.Authors) {
		if printable.Text(text) != text || strings.ContainsAny(text, "\n\r") {
			return fmt.Errorf("%q: expected one line without control characters", text)
		}
	}
	switch {
	case c.Policy == "":
		return errors.New("policy is missing: state its name")
	case len(c.Authors) == 0 || slices.Contains(c.Authors, ""):
		return errors.New("authors is missing: name at least one person")
	case c.Source == "":
		return errors.New("source is missing: cite the paper, or write new")
	case !licence.MatchString(c.Licence):
		return fmt.Errorf("licence %q: expected an SPDX identifier, as in Apache-2.0 or MIT", c.Licence)
	case c.Link != "" && !strings.HasPrefix(c.Link, "https://"):
		return fmt.Errorf("link %q: expected an address that begins with https://", c.Link)
	}
	for i, claim := range c.Claims {
		switch {
		case claim.BetterThan == "" || claim.BetterThan == c.Policy:
			return fmt.Errorf("claim %d: better_than %q: expected another policy", i+1, claim.BetterThan)
		case claim.Capacity != "" && !slices.Contains(corpus.Capacities, claim.Capacity):
			return fmt.Errorf("claim %d: capacity %q: expected one of %s", i+1, claim.Capacity, strings.Join(corpus.Capacities, ", "))
		case !slices.Contains([]corpus.Split{"", corpus.Whole, corpus.Open, corpus.HeldOut}, claim.Split):
			return fmt.Errorf("claim %d: split %q: expected all, open or held-out", i+1, claim.Split)
		}
	}
	return nil
}

// Policies returns the policies whose rows Judge needs: that of the card, those of its claims, LRU
// and OPT.
func (c *Card) Policies() []string {
	list := append([]string{c.Policy}, slice.Map(c.Claims, func(c Claim) string { return c.BetterThan })...)
	list = append(list, "lru", board.OptPolicy)
	slices.Sort(list)
	return slices.Compact(list)
}

// Verdict is a claim with the figures that decide it.
type Verdict struct {
	Claim
	// Ratio is the policy's misses divided by the other's, as of board.Contest.
	Ratio *board.Figure `json:"ratio"`
	// P is of the paired permutation test over requests.
	P *float64 `json:"p"`
	// Holds is true if the policy misses less with P below 0.05.
	Holds bool `json:"holds"`
}

// Judgement is what rows say about a card.
type Judgement struct {
	// Corpus is the version of the corpus that the rows are of.
	Corpus int `json:"corpus"`
	// XOpt is × OPT over all traces and capacities, HeldOut over the held-out traces. They are null if
	// the policy has no such figure.
	XOpt    *board.Figure `json:"x_opt"`
	HeldOut *board.Figure `json:"held_out"`
	// Verdicts are those of the claims, in the order of the card.
	Verdicts []Verdict `json:"verdicts"`
}

// Judge decides the claims of a card by rows per request of its Policies. The rows are of every trace
// of a version of the corpus, at all of its capacities. canonical returns the name of a policy in rows.
func (c *Card) Judge(rows []result.Row, canonical func(string) string) (*Judgement, error) {
	digests := map[string]string{}
	for i := range rows {
		digests[rows[i].Trace] = rows[i].TraceDigest
	}
	version, part := corpus.Find(digests)
	if version == nil || part != corpus.Whole {
		return nil, errors.New("the rows are not of exactly the traces of a version of the corpus")
	}
	j := &Judgement{Corpus: version.Number}
	var err error
	if j.XOpt, err = c.xOpt(rows); err != nil {
		return nil, err
	}
	if j.HeldOut, err = c.xOpt(of(rows, version, corpus.HeldOut)); err != nil {
		return nil, err
	}
	for _, claim := range c.Claims {
		among := slices.DeleteFunc(of(rows, version, claim.Split), func(r result.Row) bool {
			return claim.Capacity != "" && (r.Capacity == nil || *r.Capacity != claim.Capacity)
		})
		compared, err := board.Compare(among, c.Policy, canonical(claim.BetterThan), board.Options{})
		if err != nil {
			return nil, fmt.Errorf("%s: claim: %s: %w", c.Policy, claim, err)
		}
		pooled := compared.Groups[0].Pooled
		if pooled == nil {
			return nil, fmt.Errorf("%s: claim: %s: the policies have no common cell", c.Policy, claim)
		}
		j.Verdicts = append(j.Verdicts, Verdict{claim, pooled.Ratio, pooled.P, pooled.Better != nil && *pooled.Better == c.Policy})
	}
	return j, nil
}

// of returns the rows of a part of the corpus.
func of(rows []result.Row, v *corpus.Version, s corpus.Split) []result.Row {
	part := v.Part(s)
	return slices.DeleteFunc(slices.Clone(rows), func(r result.Row) bool { return !slices.Contains(part, r.Trace) })
}

// xOpt returns the policy's × OPT over rows, nil if it has none.
func (c *Card) xOpt(rows []result.Row) (*board.Figure, error) {
	b, err := board.NewBoard(rows, board.Options{})
	if err != nil {
		return nil, err
	}
	for _, t := range b.Tables {
		for _, line := range t.Lines() {
			if line.Policy == c.Policy && line.Pooled != nil {
				return line.Pooled.XOpt, nil
			}
		}
	}
	return nil, nil
}
