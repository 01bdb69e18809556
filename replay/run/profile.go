package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/setting"
)

// ProfileSchema is the version of the profile's columns.
const ProfileSchema = 3

// ProfileRow is one counted step of one cell on one stream. The time model reads it. A profile is
// sorted by stream, cell, step.
type ProfileRow struct {
	RequestID string  `parquet:"request_id,dict"`
	LayerID   int32   `parquet:"layer_id,dict"`
	Head      *int32  `parquet:"head,optional,dict"`
	Policy    string  `parquet:"policy,dict"`
	Capacity  *string `parquet:"capacity,optional,dict"` // null for policies without capacity
	Tier      int32   `parquet:"tier,dict"`              // 0 is the GPU's cache, n the n-th tier below it
	Above     string  `parquet:"above,dict"`             // the caches above a lower tier
	Step      int32   `parquet:"step,delta"`
	SeqLen    int32   `parquet:"seq_len,delta"`
	Demand    int32   `parquet:"demand,delta,zstd"`    // blocks demanded after pins
	Listed    int64   `parquet:"listed,delta,zstd"`    // entries of the lists among the demanded blocks
	Misses    int32   `parquet:"misses,delta,zstd"`    // blocks fetched
	MissRuns  int32   `parquet:"miss_runs,delta,zstd"` // runs of adjacent blocks among them
	Births    int32   `parquet:"births,delta,zstd"`    // blocks that left the local window
	Resident  int32   `parquet:"resident,delta,zstd"`  // blocks resident after the step
	Moved     int64   `parquet:"moved,delta,zstd"`     // entries fetched
	Positions int32   `parquet:"positions,delta,zstd"` // positions decoded: each writes back one entry per head
	// MissedIndices are the fetched blocks, ascending. They are null unless CreateProfile adds them.
	MissedIndices []int32 `parquet:"missed_indices,optional,list" parquet-element:",delta"`
}

// ProfileMeta is stored in the profile's key-value metadata under "kvreplay.profile". The
// ProfileSum of all rows and of that text is stored under "kvreplay.profile.digest".
type ProfileMeta struct {
	Schema int `json:"schema"`
	result.Setting
	// ListTokens is the number of tokens of an index in the trace's lists, the unit of TopK and
	// Candidates. It is 0 in files older than this field. BlockTokens then takes its place.
	ListTokens int `json:"list_tokens,omitempty"`
	// OutlierBlocks is the number of blocks that Outliers states. Readers of a profile set it.
	OutlierBlocks int `json:"-"`
	// Labels are the conditions that limit every price of the profile.
	Labels result.Labels `json:"labels,omitempty"`
	// Oracles are the policies of the profile that see the future.
	Oracles []string `json:"oracles,omitempty"`
	// Lossy are the policies of the profile that drop entries. They fetch nothing.
	Lossy []string `json:"lossy,omitempty"`
	// Fingerprints identify the decisions of each policy of the profile. Files older than this
	// field have none.
	Fingerprints map[string]string `json:"fingerprints,omitempty"`
}

// Outdated reports whether a policy of a cell, or of a tier below it, has changed since the
// profile was written. It compares the profile's fingerprints with those of the cells that runs
// have requested in the profile's folder dir.
func (m *ProfileMeta) Outdated(dir, policy, capacity string) (bool, error) {
	requested, err := Requested(dir)
	if err != nil || m.Fingerprints[policy] == "" {
		return false, err
	}
	same := map[string]bool{} // by tier and policy: a recorded cell has the profile's fingerprint
	for i := range requested {
		r := &requested[i]
		if r.TraceDigest != m.TraceDigest || r.Tiers != m.Tiers {
			continue
		}
		if r.Tier == 0 && r.Policy == policy && (r.Capacity == nil || *r.Capacity == capacity) || r.Tier > 0 && (r.Above == policy || r.Above == policy+"@"+capacity) {
			key := fmt.Sprint(r.Tier, r.Policy)
			same[key] = same[key] || r.PolicyFingerprint == m.Fingerprints[r.Policy]
		}
	}
	return slices.Contains(slices.Collect(maps.Values(same)), false), nil
}

// profileAhead is the number of streams that a worker may be ahead of the file.
const profileAhead = 64

// Profile writes ProfileRows to a Parquet file during a run. The file gets its name when Close
// succeeds. A nil *Profile records nothing.
//
// A failed write ends the profile but not the run, because its rows do not need the profile. The
// unfinished file is removed, which frees its space, and Close returns the error.
type Profile struct {
	// Failing, if not nil, is called once if a write fails during the run.
	Failing func(error)

	indices bool
	path    string
	file    *files.File
	sum     hash.Hash // of the file's bytes
	rows    *ProfileSum
	writer  *parquet.GenericWriter[ProfileRow]
	plan    *plan

	mu      sync.Mutex
	turn    sync.Cond
	next    int // stream that is written next
	waiting map[int]*profileSteps
	err     error
	stopped bool
}

// CreateProfile opens a profile at path. With indices, it has the missed blocks of each step.
func CreateProfile(path string, indices bool) (*Profile, error) {
	file, err := files.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create profile: %w", err)
	}
	p := &Profile{indices: indices, path: path, file: file, sum: sha256.New(), rows: NewProfileSum(), waiting: map[int]*profileSteps{}}
	p.turn.L = &p.mu
	p.writer = parquet.NewGenericWriter[ProfileRow](io.MultiWriter(file, p.sum), parquet.MaxRowsPerRowGroup(1<<20), parquet.DataPageStatistics(false))
	return p, nil
}

// profileSteps are the rows of one stream, cell by cell.
type profileSteps struct {
	profile *Profile
	plan    *plan
	stream  int
	byCell  [][]ProfileRow
}

func (p *plan) checkProfile() error {
	if p.opt.Profile == nil {
		return nil
	}
	if p.opt.Profile.indices && p.layout.Clustered {
		return errors.New("profile: clusters have no index of a block: leave out --profile-indices")
	}
	for _, c := range p.cells {
		if why := setting.Unfit(c.spec, setting.UseProfile); why != "" {
			return fmt.Errorf("profile: policy %s: %s", c.spec.Name(), why)
		}
	}
	return p.checkCombination()
}

// recording holds the recorded steps of the streams of a cache, stream by stream.
type recording []*profileSteps

// begin returns the recorder of a cache, or nil without a profile.
func (p *Profile) begin(c span) (r recording) {
	if p == nil {
		return nil
	}
	for i := c.from; i < c.to; i++ {
		r = append(r, &profileSteps{profile: p, plan: p.plan, stream: i, byCell: make([][]ProfileRow, len(p.plan.cells))})
	}
	return r
}

// observer records the counted steps of cell c, each with its stream.
func (r recording) observer(c int) cache.Observer {
	if len(r) == 0 {
		return nil
	}
	own := slice.Map(r, func(s *profileSteps) cache.Observer { return s.observer(c) })
	return func(report *cache.StepReport) { own[report.Stream](report) }
}

func (s *profileSteps) observer(c int) cache.Observer {
	info, plan := s.plan.selected(s.stream), &s.plan.cells[c]
	row := ProfileRow{RequestID: info.Request, LayerID: info.Layer, Policy: plan.spec.Name(), Tier: int32(plan.tier), Above: plan.above}
	if info.Head >= 0 && s.plan.layout.Heads == 1 {
		row.Head = &info.Head
	}
	if plan.capacity != nil {
		row.Capacity = new(plan.capacity.String())
	}
	clustered, picked := s.plan.layout.Clustered, s.plan.layout.HasPicked()
	return func(r *cache.StepReport) {
		if r.T < 0 {
			return
		}
		row.Step = r.Step
		row.SeqLen = info.PromptLen + row.Step + 1
		row.Demand, row.Misses, row.MissRuns = int32(r.Demand), int32(len(r.Misses)), int32(runsOf(r.Misses))
		row.Listed = int64(r.Demand)
		if picked {
			row.Listed = r.DemandEntries
		}
		if clustered { // numbers of clusters do not state their places
			row.MissRuns = row.Misses
		}
		row.Births, row.Resident = int32(r.Births), int32(r.Resident)
		row.Moved, row.Positions = r.Moved, int32(r.Positions)
		if s.profile.indices {
			row.MissedIndices = make([]int32, len(r.Misses))
			for i, b := range r.Misses {
				row.MissedIndices[i] = b - r.First
			}
		}
		s.byCell[c] = append(s.byCell[c], row)
	}
}

// runsOf counts the runs of adjacent blocks in an ascending list.
func runsOf(blocks []int32) int {
	runs := 0
	for i, x := range blocks {
		if i == 0 || blocks[i-1] != x-1 {
			runs++
		}
	}
	return runs
}

// end accepts finished streams and writes streams in their order.
func (p *Profile) end(c span, r recording) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c.from > p.next+profileAhead && !p.stopped {
		p.turn.Wait()
	}
	for n, s := range r {
		p.waiting[c.from+n] = s
	}
	for s := p.waiting[p.next]; s != nil; s = p.waiting[p.next] {
		delete(p.waiting, p.next)
		p.next++
		p.write(s)
	}
	p.turn.Broadcast()
}

func (p *Profile) write(s *profileSteps) {
	for _, rows := range s.byCell {
		if p.err != nil {
			return
		}
		for i := range rows {
			p.rows.Add(&rows[i])
		}
		if _, err := p.writer.Write(rows); err != nil {
			p.err = err
			p.Abort()
			if p.Failing != nil {
				p.Failing(p.errorOf(err))
			}
		}
	}
}

func (p *Profile) errorOf(err error) error { return fmt.Errorf("write profile %s: %w", p.path, err) }

// stop wakes the waiting workers after a failure.
func (p *Profile) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.turn.Broadcast()
}

// Close finishes the file and moves it to its name. If the run has a store, the store keeps the
// file's digest. The same run then recognises the profile as its own.
func (p *Profile) Close() error {
	err := p.err
	if p.plan == nil {
		err = errors.New("no run was recorded")
	}
	if err == nil {
		err = p.finish()
	}
	if err != nil {
		p.Abort()
		return p.errorOf(err)
	}
	if s := p.plan.opt.Store; s != nil {
		return s.saveDigest(p.plan.profileKey(p.indices), p.plan.behaviourDigest(), hex.EncodeToString(p.sum.Sum(nil)))
	}
	return nil
}

// profileKey returns a digest of all inputs of a profile.
func (p *plan) profileKey(indices bool) string {
	return hashOf([]any{ProfileSchema, indices, p.keys()})
}

func (p *Profile) finish() error {
	pl := p.plan
	text, err := json.Marshal(ProfileMeta{Schema: ProfileSchema, Setting: pl.setting, ListTokens: pl.meta.BlockTokens,
		Labels:  pl.traceLabels(),
		Oracles: pl.having(func(t policies.Traits) bool { return t.Offline }),
		Lossy:   pl.having(func(t policies.Traits) bool { return t.Lossy }), Fingerprints: pl.policyFingerprints()})
	if err != nil {
		return err
	}
	p.writer.SetKeyValueMetadata("kvreplay.profile", string(text))
	p.writer.SetKeyValueMetadata("kvreplay.profile.digest", p.rows.Digest(string(text)))
	if err := p.writer.Close(); err != nil {
		return err
	}
	return p.file.Replace()
}

// having returns the policies of the plan with a trait, each once.
func (p *plan) having(trait func(policies.Traits) bool) (names []string) {
	for _, c := range p.cells {
		if name := c.spec.Name(); trait(c.spec.Entry.Traits) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (p *plan) policyFingerprints() map[string]string {
	all := map[string]string{}
	for i := range p.cells {
		does := p.behaviours(&p.cells[i])[0]
		all[does.policy] = does.fingerprint
	}
	return all
}

// Abort removes the unfinished file. It does nothing after Close.
func (p *Profile) Abort() { p.file.Abort() }
