package setting

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvreplay/kvreplay/policies"
)

// Mechanism is a part of a run that does not combine with every other part: a flag of `kvreplay
// replay`, a kind of policy, or a kind of capacity.
type Mechanism string

// Flags of `kvreplay replay`, and the options that they set.
const (
	UseBlocks     Mechanism = "--block-tokens" // Shape.BlockTokens, larger than the trace's
	UseSharing    Mechanism = "--share-heads"  // Shape.ShareHeads
	UsePositions  Mechanism = "--mtp"          // Shape.StepTokens above 1
	UseClusters   Mechanism = "--clusters"     // Options.Clusters
	UsePool       Mechanism = "--pool"         // Options.Pool
	UseOutliers   Mechanism = "--outliers"     // Options.Outliers
	UsePrefetch   Mechanism = "--prefetch"     // Options.Prefetch
	UseSwap       Mechanism = "--prefetch SOURCE,swap"
	UseTiers      Mechanism = "--tier"                                 // Options.Tiers
	UsePlan       Mechanism = "--allocation"                           // Options.Allocation
	UseRedivision Mechanism = "--reallocate"                           // Options.Reallocation
	UsePlacing    Mechanism = "--warmup importance or staging"         // they place blocks
	UseProfile    Mechanism = "--profile"                              // Options.Profile
	UseReferee    Mechanism = "--referee"                              // Options.Referee
	UseCheckpoint Mechanism = "--checkpoint"                           // Options.Checkpoint
	AsTier        Mechanism = "the policy of a --tier"                 // the policy of a Tier
	AtPeakOrPlan  Mechanism = "--capacity peak:POLICY or --allocation" // peak:POLICY, or of a plan
	AtChanging    Mechanism = "a capacity that changes"                // 1x+2x@64, or with --reallocate
)

// Kinds of policies, from their Traits and optional interfaces.
const (
	KindLossy      Mechanism = "lossy policies"                           // Traits.Lossy
	KindWindowed   Mechanism = "policies without capacity"                // Traits.Windowed
	KindBypassing  Mechanism = "policies that bypass the cache"           // Traits.Bypasses
	KindSized      Mechanism = "policies that read the capacity"          // Traits.Sized
	KindUnresized  Mechanism = "policies whose capacity is fixed"         // Sized or Lossy, and no Resizer
	KindOffline    Mechanism = "policies that see the future"             // Traits.Offline or NeedNext
	KindUnpeekable Mechanism = "policies that cannot name a victim early" // no Peeker
	KindDividing   Mechanism = "policies that divide a request's memory"  // a Divider
)

// Conflict is a mechanism, those that it does not combine with, and the reason.
type Conflict struct {
	A    Mechanism
	With []Mechanism
	Why  string
}

// Conflicts lists every pair of mechanisms that do not combine. All other pairs do. Rows of one
// mechanism A follow each other.
func Conflicts() []Conflict { return conflicts }

var conflicts = []Conflict{
	{UsePool, with(UsePrefetch), "a prefetcher serves one stream"},
	{UsePool, with(UsePlan), "a plan divides memory among layers and heads, a pool shares it"},
	{UseTiers, with(UseSwap), "a step may demand a block that it swapped out"},
	{UseClusters, with(UseBlocks), "clusters group single tokens"},
	{UseClusters, with(UseSharing), "each head has its own clusters"},
	{UseClusters, with(UsePrefetch, UseTiers, UsePool, UseOutliers, UsePlan), "clusters have unequal sizes"},
	{UseClusters, with(UsePlacing), "this warm-up places blocks of one size (choose lru:W or cold)"},
	{UseCheckpoint, with(UseProfile, UseReferee), "profiles and the referee cover a whole trace or nothing"},

	{KindLossy, with(UseBlocks, UseSharing, UseClusters), "the policy drops single entries, see kvreplay derive"},
	{KindLossy, with(UsePositions), "the policy drops entries after each position, and a step has several"},
	{KindLossy, with(UsePool, UseRedivision), "the policy sets its own budgets"},
	{KindLossy, with(UseOutliers), "the policy chooses the blocks that stay"},
	{KindLossy, with(UsePrefetch, UseTiers), "the policy fetches nothing, its dropped entries are lost"},
	{KindLossy, with(UsePlacing), "the policy compresses the prompt itself (choose lru:W or cold)"},
	{KindLossy, with(AsTier), "a tier must return every entry, and the policy drops some"},
	{KindDividing, with(AtPeakOrPlan), "the policy divides the memory of a whole request"},

	{KindWindowed, with(UsePlacing), "this warm-up fills a capacity, and the policy has none"},
	{KindWindowed, with(AsTier), "a tier needs a capacity, and the policy has none"},
	{KindBypassing, with(UseClusters), "the policy chooses among blocks of one size"},
	{KindBypassing, with(UseSwap), "a swap needs the policy's next victim, and the policy may bypass the cache"},
	{KindBypassing, with(AsTier), "the policy decides by the GPU's demand, and a tier sees only misses"},
	{KindUnpeekable, with(UseSwap), "a swap needs the next victim early (choose fifo, lfu, lookahead or lru)"},
	{KindSized, with(UseClusters), "the policy counts blocks of one size"},
	{KindUnresized, with(AtChanging), "the policy is built for one capacity"},
	{KindOffline, with(UseClusters), "the optimum for blocks of one size is not the optimum for clusters"},
	{KindOffline, with(AsTier), "the future of a tier depends on the policy above it"},
}

func with(all ...Mechanism) []Mechanism { return all }

// Kind is a kind of policies that has conflicts.
type Kind struct {
	Mechanism
	Policies []string // names, in the order of the table
}

// Kinds lists the kinds of policies that have conflicts, in the order of Conflicts. A policy whose
// example does not parse is of no kind.
func Kinds(table policies.Table) []Kind {
	var all []Kind
	for _, c := range conflicts {
		if !strings.HasPrefix(string(c.A), "--") && !slices.ContainsFunc(all, func(k Kind) bool { return k.Mechanism == c.A }) {
			all = append(all, Kind{Mechanism: c.A})
		}
	}
	for _, e := range table {
		spec, err := table.Parse(strings.TrimSuffix(e.Name+":"+e.Example, ":"))
		if err != nil {
			continue
		}
		of := kindsOf(spec)
		for i := range all {
			if of[all[i].Mechanism] {
				all[i].Policies = append(all[i].Policies, e.Name)
			}
		}
	}
	return all
}

// mechanisms is a set of mechanisms.
type mechanisms map[Mechanism]bool

// conflict returns the first pair of a and b that does not combine, its member of a first, and
// the reason. Without one the reason is empty.
func conflict(a, b mechanisms) (in, other Mechanism, why string) {
	for _, c := range conflicts {
		for _, w := range c.With {
			switch {
			case a[c.A] && b[w]:
				return c.A, w, c.Why
			case a[w] && b[c.A]:
				return w, c.A, c.Why
			}
		}
	}
	return "", "", ""
}

// Combine returns an error that names the first two mechanisms that do not combine.
func Combine(used ...Mechanism) error {
	set := mechanisms{}
	for _, m := range used {
		set[m] = true
	}
	if a, b, why := conflict(set, set); why != "" {
		return fmt.Errorf("%s and %s do not combine: %s. Remove one of them", a, b, why)
	}
	return nil
}

// kindsOf lists the kinds of a policy.
func kindsOf(spec policies.Spec) mechanisms {
	p, t := spec.Make(), spec.Entry.Traits
	_, peeks := p.(policies.Peeker)
	_, resizes := p.(policies.Resizer)
	_, divides := p.(policies.Divider)
	return mechanisms{
		KindLossy: t.Lossy, KindWindowed: t.Windowed, KindBypassing: spec.Bypasses(), KindSized: t.Sized,
		KindUnresized: (t.Sized || t.Lossy) && !resizes, KindOffline: t.Offline || policies.NeedsOf(p)&policies.NeedNext != 0,
		KindUnpeekable: !peeks, KindDividing: divides,
	}
}

// Unfit returns the reason that a policy does not combine with the given mechanisms, or "".
func Unfit(spec policies.Spec, with ...Mechanism) string {
	set := mechanisms{}
	for _, m := range with {
		set[m] = true
	}
	kind, other, why := conflict(kindsOf(spec), set)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s and %s do not combine)", why, kind, other)
}
