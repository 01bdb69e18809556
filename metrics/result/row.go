// Package result holds result rows: their fields, checks and files (JSON lines, CSV,
// Parquet), the settings that make them comparable, and the conditions that select them.
// Package board computes figures of rows and package render prints both.
package result

// RowSchema is the version of Row's JSON form. A field is never renamed or reused;
// a change of meaning raises the version.
const RowSchema = 2

// Row is one cell of a run: one trace, policy, capacity and warm-up, its counts pooled
// over streams, or one part of that cell where the run was asked for detail. Counts
// are of counted steps (step ≥ 0) only.
//
// Fields stand in files in the order of FieldNames. The tag "before" moves a field before
// another one, "moves" the fields of the embedded struct.
type Row struct {
	// Schema is RowSchema.
	Schema  int `json:"schema"`
	Setting `moves:"tiers<prefetch allocation<tiers reallocation<tiers engine<warnings seed<warnings"`

	// Policy is the policy with its options, as `--policy` takes it.
	Policy string `json:"policy" before:"selector"`
	// Options is the canonical text of the options, empty without.
	Options string `json:"options" before:"selector"`
	// PolicyFingerprint names the policy's behaviour: a digest of its decisions on fixed
	// streams. An edited policy keeps its name and gets another fingerprint.
	PolicyFingerprint string `json:"policy_fingerprint" before:"selector"`
	// DependsOn are other policies on whose decisions the counts depend, with their
	// fingerprints, "window:2=c3a9f15c5d9a22ee": of the caches above a tier, of the policy
	// whose peak is the capacity; empty for none.
	DependsOn string `json:"depends_on" before:"selector"`
	// Offline is true for policies that see the future: bounds, not contenders.
	Offline bool `json:"offline" before:"selector"`
	// Bypasses is true for policies that may keep demanded blocks out; opt-bypass bounds them.
	Bypasses bool `json:"bypasses" before:"selector"`
	// Lossy is true for policies that drop entries for good.
	Lossy bool `json:"lossy" before:"selector"`
	// Capacity is the capacity as asked for ("1.5x", "0.2ctx", "6400", "64MiB",
	// "peak:window:2"), spelled as CapacityText does; null for policies without capacity.
	Capacity *string `json:"capacity" before:"warmup"`
	// CapacityEntries is the capacity of a stream in entries (tokens), of each head where heads
	// share a cache, the largest of one that grows; null for policies without capacity and
	// where the pooled streams differ.
	CapacityEntries *int64 `json:"capacity_entries" before:"warmup"`
	// Tier is 0 for the GPU's cache and n for the n-th below, whose demand is the misses of the
	// one above; Above are the caches above it, "lru@2x".
	Tier  int    `json:"tier" before:"prefetch"`
	Above string `json:"above" before:"prefetch"`
	// Labels are the conditions that limit the row's figures, as Labels.String writes them;
	// empty without any.
	Labels string `json:"labels"`

	// RequestID, LayerID and Head say which part of the cell this row is; null where pooled.
	RequestID *string `json:"request_id"`
	LayerID   *int32  `json:"layer_id"`
	Head      *int32  `json:"head"`

	// Streams is the number of streams pooled; Steps the counted steps, summed over them.
	Streams int64 `json:"streams"`
	Steps   int64 `json:"steps"`
	// Demand is the number of demanded blocks after pins; DemandMean is Demand ÷ Steps.
	Demand     int64   `json:"demand"`
	DemandMean float64 `json:"demand_mean"`
	// Hits + Misses + Lost = Demand, in blocks. Misses are fetched; Lost were dropped by a
	// lossy policy, which fetches nothing.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	Lost   int64 `json:"lost"`
	// Recall is the share of the demand that a lossy policy had not lost, 1 where nothing was
	// demanded; null for exact policies, which lose nothing.
	Recall *float64 `json:"recall"`
	// KeptMass is the attention mass of the listed blocks that a lossy policy still had,
	// CoveredMass that of all M that are listed, pinned ones included where they are: means
	// over stream-steps, of 1. What is beyond the list is unknown: of all attention a policy
	// had between KeptMass and KeptMass + 1 - CoveredMass. Null for exact policies, and where
	// the trace does not say: masses of blocks, or for CoveredMass its sum alone.
	KeptMass    *float64 `json:"kept_mass"`
	CoveredMass *float64 `json:"covered_mass"`
	// Evictions are blocks outside the demand that left the cache; demanded ones that a step
	// does not keep (overflow, bypass) are not counted.
	Evictions int64 `json:"evictions"`
	// Births are blocks that left the local window.
	Births int64 `json:"births"`
	// Overflow is the sum over steps of max(0, |D_t| - C), in blocks.
	Overflow int64 `json:"overflow"`
	// Prefetched blocks were moved ahead of their demand. Useful ones were demanded while
	// staged, or before a swap's block was evicted: hits. Late ones were named and missed all
	// the same, because the buffer was full or, of swaps, what is cached ranked better. Useless
	// ones were never demanded.
	Prefetched      int64 `json:"prefetched"`
	PrefetchUseful  int64 `json:"prefetch_useful"`
	PrefetchLate    int64 `json:"prefetch_late"`
	PrefetchUseless int64 `json:"prefetch_useless"`
	// DemandEntries and MissedEntries are the demanded and the missed entries, one token
	// of one head each, where blocks hold several; null where the trace itself lists blocks,
	// and of a tier below that is asked for blocks of several entries.
	DemandEntries *int64 `json:"demand_entries"`
	MissedEntries *int64 `json:"missed_entries"`
	// MovedEntries are fetched: every entry of a missed block; of an admission policy the
	// missed entries and every entry of the blocks that it keeps.
	MovedEntries int64 `json:"moved_entries"`
	// ReadAmplification is MovedEntries ÷ MissedEntries; null where that is not known or
	// zero, or where some were moved ahead.
	ReadAmplification *float64 `json:"read_amplification"`
	// StagingPeakEntries is the most that a step of a stream demanded and did not keep:
	// memory beside the cache.
	StagingPeakEntries int64 `json:"staging_peak_entries"`
	// PinnedPeakEntries is the most that a stream has pinned at a step, whole blocks: sinks,
	// local window, outliers. It is beside the capacity.
	PinnedPeakEntries int64 `json:"pinned_peak_entries"`
	// HostToDeviceBytes is what misses and prefetches move, DeviceToHostBytes the
	// write-back of generated entries; null without entry_bytes.
	HostToDeviceBytes *int64 `json:"host_to_device_bytes"`
	DeviceToHostBytes *int64 `json:"device_to_host_bytes"`
	// ResidentMean and ResidentPeak are blocks resident after a step, pinned ones not
	// counted, per stream: mean over stream-steps, largest of any stream and step.
	ResidentMean float64 `json:"resident_mean"`
	ResidentPeak int64   `json:"resident_peak"`

	// Warnings say what a reader must know before comparing this row.
	Warnings []string `json:"warnings"`
}
