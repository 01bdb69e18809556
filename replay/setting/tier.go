package setting

import (
	"fmt"
	"strings"

	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/policies"
)

// Tier is a cache below the GPU's: host memory or an SSD. Its demand is the blocks that the
// tier above fetches. Its own misses are the demand of the next tier. Storage below the last tier has every
// block (KVDrive keeps a copy of all entries on SSD). The text form parses back.
type Tier struct {
	Name     string // "dram", "cxl"
	Policy   policies.Spec
	Capacity Capacity
}

// ParseTier reads "dram=lru@8x" or "dram=lru@2x+8x@64": a name, a policy of the table, a capacity.
func ParseTier(table policies.Table, text string) (Tier, error) {
	name, rest, named := strings.Cut(text, "=")
	policy, capacity, sized := strings.Cut(rest, "@") // the first "@", because a growing capacity has more
	if !named || name == "" || strings.ContainsAny(name, " ,@>") || policy == "" || !sized {
		return Tier{}, fmt.Errorf("tier %q: expected NAME=POLICY@CAPACITY, as in dram=lru@8x", text)
	}
	t := Tier{Name: name}
	var err error
	if t.Policy, err = table.Parse(policy); err != nil {
		return t, fmt.Errorf("tier %q: %w", text, PolicyError{err})
	}
	if t.Capacity, err = ParseCapacity(capacity); err != nil {
		return t, fmt.Errorf("tier %q: %w", text, err)
	}
	return t, t.Check()
}

// PolicyError is the reason that a table cannot read the policy of a tier.
type PolicyError struct{ error }

// Unwrap returns the error of the table.
func (e PolicyError) Unwrap() error { return e.error }

// Check refuses a policy or a capacity that a tier below the GPU's cache cannot have.
func (t Tier) Check() error {
	if t.Capacity.form == OfPeak {
		return fmt.Errorf("tier %v: expected a capacity other than peak:POLICY", t)
	}
	if why := Unfit(t.Policy, AsTier); why != "" {
		return fmt.Errorf("tier %v: %s", t, why)
	}
	return nil
}

// String returns the text form.
func (t Tier) String() string {
	return fmt.Sprintf("%s=%s@%s", t.Name, t.Policy.Name(), t.Capacity)
}

// TiersText returns the text of a run's tiers in rows.
func TiersText(tiers []Tier, inclusive bool) string {
	texts := slice.Map(tiers, func(t Tier) string { return t.String() })
	if inclusive && len(tiers) > 0 {
		texts = append(texts, "inclusive")
	}
	return strings.Join(texts, " ")
}

// ParseTiers reads the output of TiersText.
func ParseTiers(table policies.Table, text string) (tiers []Tier, inclusive bool, err error) {
	for _, one := range strings.Fields(text) {
		if one == "inclusive" {
			inclusive = true
			continue
		}
		tier, err := ParseTier(table, one)
		if err != nil {
			return nil, false, err
		}
		tiers = append(tiers, tier)
	}
	return tiers, inclusive, nil
}
