package result

// RowSchema is the version of Row's JSON form. A field is never renamed or reused. A change of
// meaning raises the version.
const RowSchema = 2

// Row is one cell of a run: one trace, policy, capacity and warm-up, with counts pooled over
// streams. If the run was asked for detail, it is one part of that cell. Counts are only of counted
// steps (step ≥ 0).
//
// Files have the fields in the order of FieldNames. The tag "before" moves a field before another
// one, "moves" the fields of the embedded struct.
type Row struct {
	// Schema is RowSchema.
	Schema  int `json:"schema"`
	Setting `moves:"tiers<prefetch allocation<tiers reallocation<tiers engine<warnings seed<warnings"`

	// Policy is the policy with its options, as `--policy` takes it.
	Policy string `json:"policy" before:"selector"`
	// Options is the canonical text of the options, empty if there are none.
	Options string `json:"options" before:"selector"`
	// PolicyFingerprint identifies the policy's behaviour: a digest of its decisions on fixed streams.
	// An edited policy keeps its name and gets another fingerprint.
	PolicyFingerprint string `json:"policy_fingerprint" before:"selector"`
	// DependsOn are other policies on whose decisions the counts depend, with their fingerprints:
	// "window:2=c3a9f15c5d9a22ee". They are the caches above a tier, and the policy whose peak is the
	// capacity. It is empty for none.
	DependsOn string `json:"depends_on" before:"selector"`
	// Offline is true for policies that see the future: bounds, not contenders.
	Offline bool `json:"offline" before:"selector"`
	// Bypasses is true for policies that may keep demanded blocks out. opt-bypass bounds them.
	Bypasses bool `json:"bypasses" before:"selector"`
	// Lossy is true for policies that drop entries for good.
	Lossy bool `json:"lossy" before:"selector"`
	// Capacity is the requested capacity ("1.5x", "0.2ctx", "6400", "64MiB", "peak:window:2"), spelled
	// by CapacityText. It is null for policies without capacity.
	Capacity *string `json:"capacity" before:"warmup"`
	// CapacityEntries is the capacity of a stream in entries (tokens), of each head if heads share a
	// cache. For a growing capacity it is the largest. It is null for policies without capacity and if
	// the pooled streams differ.
	CapacityEntries *int64 `json:"capacity_entries" before:"warmup"`
	// Tier is 0 for the GPU's cache and n for the n-th below it, whose demand is the blocks that the one
	// above fetches. Above are the caches above it, "lru@2x".
	Tier  int    `json:"tier" before:"prefetch"`
	Above string `json:"above" before:"prefetch"`
	// Labels are the conditions that limit the row's figures, as Labels.String writes them, or empty.
	Labels string `json:"labels"`

	// RequestID, LayerID and Head are the part of the cell that this row describes. They are null if
	// pooled.
	RequestID *string `json:"request_id"`
	LayerID   *int32  `json:"layer_id"`
	Head      *int32  `json:"head"`

	// Streams is the number of pooled streams. Steps is the number of counted steps, summed over them.
	Streams int64 `json:"streams"`
	Steps   int64 `json:"steps"`
	// Demand is the number of demanded blocks without pinned ones. DemandMean is Demand ÷ Steps.
	Demand     int64   `json:"demand"`
	DemandMean float64 `json:"demand_mean"`
	// Hits + Misses + Lost = Demand, in blocks. Misses are fetched. Lost blocks were dropped by a
	// lossy policy, which fetches nothing.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	Lost   int64 `json:"lost"`
	// Recall is the share of the demand that a lossy policy had not lost, 1 without demand. It is null
	// for exact policies, which lose nothing.
	Recall *float64 `json:"recall"`
	// KeptMass is the attention mass of the listed blocks that a lossy policy still had. CoveredMass
	// is that of all M listed blocks, with pinned ones if lists name them. Both are means over
	// stream-steps, of 1. The mass beyond the list is unknown: a policy had between KeptMass and
	// KeptMass + 1 - CoveredMass of all attention. They are null for exact policies, and if the trace
	// lacks masses of blocks. CoveredMass needs only their sum.
	KeptMass    *float64 `json:"kept_mass"`
	CoveredMass *float64 `json:"covered_mass"`
	// Evictions are blocks outside the demand that left the cache. Demanded blocks that a step does
	// not keep (overflow, bypass) are not counted.
	Evictions int64 `json:"evictions"`
	// Births are blocks that left the local window.
	Births int64 `json:"births"`
	// Overflow is the sum over steps of max(0, |D_t| - C), in blocks.
	Overflow int64 `json:"overflow"`
	// Prefetched blocks were moved ahead of their demand. Useful ones were demanded while staged, or
	// before a swap's block was evicted: hits. Late ones were named but missed, because the buffer was
	// full or, for swaps, the cached blocks ranked better. Useless ones were never demanded.
	Prefetched      int64 `json:"prefetched"`
	PrefetchUseful  int64 `json:"prefetch_useful"`
	PrefetchLate    int64 `json:"prefetch_late"`
	PrefetchUseless int64 `json:"prefetch_useless"`
	// DemandEntries and MissedEntries are the demanded and the missed entries, one token of one head
	// each, if blocks have several. They are null if the trace itself lists blocks, and for a lower
	// tier whose demand is blocks of several entries.
	DemandEntries *int64 `json:"demand_entries"`
	MissedEntries *int64 `json:"missed_entries"`
	// MovedEntries is the number of fetched entries: every entry of a missed block. For an admission
	// policy it is the missed entries and every entry of the blocks that it keeps.
	MovedEntries int64 `json:"moved_entries"`
	// ReadAmplification is MovedEntries ÷ MissedEntries. It is null if that is unknown or zero, or if
	// some entries were moved ahead.
	ReadAmplification *float64 `json:"read_amplification"`
	// StagingPeakEntries is the largest number of entries that a step of a stream demanded and did not
	// keep. They need memory in addition to the cache.
	StagingPeakEntries int64 `json:"staging_peak_entries"`
	// PinnedPeakEntries is the largest number of entries that a stream has pinned at a step, in whole
	// blocks: sinks, local window, outliers. They come in addition to the capacity.
	PinnedPeakEntries int64 `json:"pinned_peak_entries"`
	// HostToDeviceBytes are moved by misses and prefetches. DeviceToHostBytes are the write-back of
	// generated entries. Both are null without entry_bytes.
	HostToDeviceBytes *int64 `json:"host_to_device_bytes"`
	DeviceToHostBytes *int64 `json:"device_to_host_bytes"`
	// ResidentMean and ResidentPeak are the blocks resident after a step per stream, without pinned
	// ones: the mean over stream-steps, and the largest of any stream and step.
	ResidentMean float64 `json:"resident_mean"`
	ResidentPeak int64   `json:"resident_peak"`

	// Warnings are remarks to read before comparing this row.
	Warnings []string `json:"warnings"`
}
