package setting

import (
	"fmt"

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
	UseTiers      Mechanism = "--tier"                           // Options.Tiers
	UsePlan       Mechanism = "--allocation"                     // Options.Allocation
	UseRedivision Mechanism = "--reallocate"                     // Options.Reallocation
	UsePlacing    Mechanism = "--warmup importance or staging"   // they place blocks
	UseProfile    Mechanism = "--profile"                        // Options.Profile
	UseReferee    Mechanism = "--referee"                        // Options.Referee
	UseCheckpoint Mechanism = "--checkpoint"                     // Options.Checkpoint
	AsTier        Mechanism = "lower tiers"                      // the policy of a Tier
	AtPeakOrPlan  Mechanism = "a capacity of single streams"     // peak:POLICY, or of a plan
	AtChanging    Mechanism = "a capacity that grows or changes" // 1x+2x@64, or with --reallocate
)

// Kinds of policies, from their Traits and optional interfaces.
const (
	KindLossy      Mechanism = "lossy policies"                              // Traits.Lossy
	KindWindowed   Mechanism = "policies without capacity"                   // Traits.Windowed
	KindBypassing  Mechanism = "policies that bypass the cache"              // Traits.Bypasses
	KindSized      Mechanism = "policies built for one capacity"             // Traits.Sized
	KindUnresized  Mechanism = "policies that cannot be resized"             // Sized or Lossy, and no Resizer
	KindOffline    Mechanism = "policies that see the future"                // Traits.Offline or NeedNext
	KindUnpeekable Mechanism = "policies that do not name their next victim" // no Peeker
	KindDividing   Mechanism = "policies that divide memory"                 // a Divider
)

// Conflict is a pair of mechanisms that do not combine, and the reason.
type Conflict struct {
	A, B Mechanism
	Why  string
}

// Conflicts lists every pair of mechanisms that do not combine. All other pairs do.
func Conflicts() []Conflict { return conflicts }

var conflicts = []Conflict{
	{UsePool, UsePrefetch, "a staging buffer belongs to one stream"},
	{UsePool, UsePlan, "a plan divides memory among layers and heads, a pool shares it"},
	{UseTiers, UsePrefetch, "a useless prefetch is no demand of the tier below"},
	{UseClusters, UseBlocks, "clusters group single tokens"},
	{UseClusters, UseSharing, "each head has clusters of its own"},
	{UseClusters, UsePrefetch, "a staging buffer holds blocks of one size"},
	{UseClusters, UseTiers, "tiers hold blocks of one size"},
	{UseClusters, UsePool, "pools hold blocks of one size"},
	{UseClusters, UseOutliers, "outliers are blocks of one size"},
	{UseClusters, UsePlan, "plans count blocks of one size"},
	{UseClusters, UsePlacing, "this warm-up places blocks of one size, lru:W and cold place none"},
	{UseClusters, UseProfile, "the time model prices blocks of one size"},
	{UseCheckpoint, UseProfile, "a profile is written for a whole trace or not at all"},
	{UseCheckpoint, UseReferee, "the referee checks a whole trace or nothing"},

	{KindLossy, UseBlocks, "lossy policies drop single list entries (kvreplay derive makes traces of blocks)"},
	{KindLossy, UseSharing, "lossy policies drop single list entries"},
	{KindLossy, UsePositions, "lossy policies drop entries at every position"},
	{KindLossy, UseClusters, "lossy policies drop single list entries"},
	{KindLossy, UsePool, "a lossy policy sets its own budgets"},
	{KindLossy, UseRedivision, "a lossy policy sets its own budgets"},
	{KindLossy, UseOutliers, "a lossy policy chooses the blocks that stay"},
	{KindLossy, UsePrefetch, "a lossy policy fetches nothing"},
	{KindLossy, UseTiers, "a lossy policy keeps nothing below the GPU"},
	{KindLossy, UsePlacing, "a lossy policy compresses the prompt itself, choose --warmup lru:W or cold"},
	{KindLossy, UseProfile, "a lossy policy fetches nothing, and a profile records fetches"},
	{KindLossy, AsTier, "a tier gives back every entry that it is asked for"},
	{KindDividing, AtPeakOrPlan, "the policy divides the memory of a whole request"},

	{KindWindowed, UsePlacing, "this warm-up fills a capacity, and the policy has none"},
	{KindWindowed, AsTier, "a tier has a capacity"},
	{KindBypassing, UseClusters, "the policy chooses among blocks of one size"},
	{KindBypassing, UseSwap, "a swap needs the policy's next victim, and the policy may keep blocks out"},
	{KindBypassing, AsTier, "the policy decides by the demand of the GPU's cache"},
	{KindUnpeekable, UseSwap, "a swap asks for the next victim in advance: choose fifo, lfu, lookahead or lru"},
	{KindSized, UseClusters, "the policy counts blocks of one size"},
	{KindUnresized, AtChanging, "the policy is built for one capacity"},
	{KindOffline, UseClusters, "the optimum for blocks of one size is not the optimum for clusters"},
	{KindOffline, AsTier, "a tier's future depends on the tier above"},
}

// mechanisms is a set of mechanisms.
type mechanisms map[Mechanism]bool

// conflict returns the first pair of a and b that does not combine, or nil.
func conflict(a, b mechanisms) *Conflict {
	for i := range conflicts {
		c := &conflicts[i]
		if a[c.A] && b[c.B] || a[c.B] && b[c.A] {
			return c
		}
	}
	return nil
}

// Combine returns an error that names the first two mechanisms that do not combine.
func Combine(used ...Mechanism) error {
	set := mechanisms{}
	for _, m := range used {
		set[m] = true
	}
	if c := conflict(set, set); c != nil {
		return fmt.Errorf("%s and %s do not combine: %s. Remove one of them", c.A, c.B, c.Why)
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
	c := conflict(kindsOf(spec), set)
	if c == nil {
		return ""
	}
	kind, other := c.A, c.B
	if set[c.A] {
		kind, other = c.B, c.A
	}
	return fmt.Sprintf("%s (%s and %s do not combine)", c.Why, kind, other)
}
