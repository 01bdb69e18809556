package verify

import (
	"slices"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// Every field of a row is a setting that a cell carries to the replay, or is compared with
// what the replay gives: a field that is added must be put in one of these lists.
func TestEveryFieldIsKnown(t *testing.T) {
	carried := []string{
		"trace_digest", "policy", "topk", "candidates", "capacity", "warmup", "sink", "local", "block_tokens", "entry_bytes", "step_tokens",
		"shared_heads", "pool", "allocation", "reallocation", "tiers", "tier", "above", "prefetch", "outliers", "clusters", "layers", "requests",
		"request_id", "layer_id", "head", "engine", "seed",
	}
	given := []string{
		"schema", "trace", "model", "options", "policy_fingerprint", "depends_on", "offline", "bypasses", "lossy", "labels", "selector", "selector_recall", "capacity_entries",
		"streams", "steps", "demand", "demand_mean", "hits", "misses", "lost", "recall", "kept_mass", "covered_mass", "evictions", "births", "overflow",
		"prefetched", "prefetch_useful", "prefetch_late", "prefetch_useless", "demand_entries", "missed_entries", "moved_entries", "read_amplification",
		"staging_peak_entries", "pinned_peak_entries", "host_to_device_bytes", "device_to_host_bytes", "resident_mean", "resident_peak", "warnings",
	}
	known := append(carried, given...)
	for _, name := range result.FieldNames() {
		if !slices.Contains(known, name) {
			t.Errorf("field %s: is it a setting, which cellOf must carry and options pass on, or does replay give it?", name)
		}
	}
	if len(known) != len(result.FieldNames()) {
		t.Errorf("%d fields are listed, rows have %d", len(known), len(result.FieldNames()))
	}
}
