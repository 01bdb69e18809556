package allocate

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/trace"
)

// Encode is the plan's file: the same plan gives the same bytes.
func (p *Plan) Encode() []byte {
	var b bytes.Buffer
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put("schema: %d", PlanSchema)
	put("family: %s", p.Family)
	put("method: %s", strconv.Quote(p.Method))
	put("policy: %s", strconv.Quote(p.Policy))
	put("topk: %d", p.TopK)
	put("block_tokens: %d", p.BlockTokens)
	put("step_tokens: %d", p.StepTokens)
	put("shared_heads: %d", p.SharedHeads)
	put("floor: %d", p.Floor)
	put("memory: %s", strconv.Quote(p.Memory))
	put("memory_entries: %d", p.MemoryEntries)
	put("used_entries: %d", p.UsedEntries)
	if p.Family == Windows {
		put("cost: %s", p.Cost)
	}
	p.encodeProfile(put)
	put("streams:")
	name := map[Family]string{Capacities: "capacity_entries", Windows: "window"}[p.Family]
	for _, s := range p.Streams {
		head := ""
		if s.Head != trace.NoHead {
			head = fmt.Sprintf("head: %d, ", s.Head)
		}
		put("  - {layer: %d, %s%s: %d}", s.Layer, head, name, s.Size)
	}
	return b.Bytes()
}

func (p *Plan) encodeProfile(put func(string, ...any)) {
	if len(p.Profile) == 0 {
		put("profile: []")
		return
	}
	put("profile:")
	for _, s := range p.Profile {
		put("  - trace: %s", strconv.Quote(s.Trace))
		put("    digest: %s", strconv.Quote(s.Digest))
		if len(s.Requests) == 0 {
			put("    requests: []")
			continue
		}
		put("    requests:")
		for _, r := range s.Requests {
			put("      - %s", strconv.Quote(r))
		}
	}
}

// Write writes the plan's file; it appears whole or not at all.
func (p *Plan) Write(path string) error {
	if err := files.Write(path, p.Encode()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}
