package replay

import "github.com/kvreplay/kvreplay/policies"

// nextUses fills the next-use columns, backwards. A block that leaves the demand is
// next demanded where it next enters.
func (d *Delta) nextUses() {
	next := policies.Fill(d.FirstUse, d.Blocks, policies.Never)
	d.FirstUse = next
	d.ExitNext = policies.Fill(d.ExitNext, len(d.Exit.items), 0)
	d.BornNext = policies.Fill(d.BornNext, len(d.Born.items), 0)
	for i := d.Rows - 1; i >= 0; i-- {
		at := d.Exit.ends[i]
		for j, x := range d.Exit.Row(i) {
			d.ExitNext[int(at)+j] = next[x]
		}
		t := int32(i - d.Windows)
		if t < 0 {
			t = policies.Never
		}
		for _, x := range d.Enter.Row(i) {
			next[x] = t
		}
		at = d.Born.ends[i]
		for j, x := range d.Born.Row(i) {
			d.BornNext[int(at)+j] = next[x] // t itself where it is demanded at once
		}
	}
}
