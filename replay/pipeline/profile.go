package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/internal/files"
	"github.com/kvreplay/kvreplay/internal/names"
	"github.com/kvreplay/kvreplay/internal/optional"
	"github.com/kvreplay/kvreplay/internal/slice"
	"github.com/kvreplay/kvreplay/internal/storage"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay"
	"github.com/kvreplay/kvreplay/replay/pipeline/schedule"
)

// Counts are the moves of one layer of one request in one step, over all its heads.
type Counts struct {
	Demand      int64 // blocks
	Listed      int64 // entries of the lists among them
	Fetched     int64 // blocks, including prefetched ones
	FetchedRuns int64 // runs of adjacent fetched blocks
	Moved       int64 // entries
	Resident    int64 // blocks after the step, with clusters entries
	SSDFetched  int64 // missed blocks that the tier below did not have
	SSDMoved    int64 // entries
	SSDRuns     int64
	SSDReads    int64 // reads of whole extents, if a Layout is known
	SSDBlocks   int64 // blocks in them
	Below       int64 // blocks resident in the tier below
	Positions   int64 // decoded positions of one head
	SeqLen      int64 // tokens
	Prompt      int64 // tokens of the prompt
}

// add adds the blocks, entries and reads of o, multiplied by times. It leaves lengths and positions.
func (c *Counts) add(o *Counts, times int64) {
	c.Demand += times * o.Demand
	c.Listed += times * o.Listed
	c.Fetched += times * o.Fetched
	c.FetchedRuns += times * o.FetchedRuns
	c.Moved += times * o.Moved
	c.Resident += times * o.Resident
	c.SSDFetched += times * o.SSDFetched
	c.SSDMoved += times * o.SSDMoved
	c.SSDRuns += times * o.SSDRuns
	c.SSDReads += times * o.SSDReads
	c.SSDBlocks += times * o.SSDBlocks
	c.Below += times * o.Below
}

// Cell is a policy at a capacity. Capacity is empty if the policy has none.
type Cell struct {
	Policy   string `json:"policy"`
	Capacity string `json:"capacity"`
}

func (c Cell) String() string {
	if c.Capacity == "" {
		return c.Policy
	}
	return c.Policy + " @ " + c.Capacity
}

// Profile is one cell of a profile file.
type Profile struct {
	Meta replay.ProfileMeta
	Cell Cell
	// Described is the text of the requests of Decoding, which have no cell.
	Described string
	Requests  []Request
	Layers    []int32 // ascending
	Heads     int     // heads with separate rows, 1 if a layer shares its selection
	Tiered    bool    // the misses of a tier below the GPU's cache are known
	Placed    bool    // the reads of a Layout are known
}

// Request holds the steps of one request.
type Request struct {
	ID    string
	Steps [][]Counts // by profiled layer, then decode step
}

// profileFile is an open profile.
type profileFile struct {
	path   string
	meta   replay.ProfileMeta
	text   string // text of meta
	digest string // stated digest, empty in older files
	file   *os.File
	rows   *parquet.GenericReader[replay.ProfileRow]
}

// recovered turns a panic of the Parquet reader on a broken file into an error.
func recovered(path string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("profile %s: broken Parquet file: %v", path, p)
	}
}

func openProfile(path string) (p *profileFile, err error) {
	defer recovered(path, &err)
	if storage.IsURL(path) {
		return nil, fmt.Errorf("profile %s: only traces are read from an object store. Copy the file here first", path)
	}
	if err := files.CheckInput(path); err != nil {
		return nil, fmt.Errorf("profile %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
			err = fmt.Errorf("profile %s: %w", path, err)
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	pf, err := parquet.OpenFile(file, info.Size())
	var failed syscall.Errno
	switch {
	case errors.As(err, &failed):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("no Parquet file, or truncated (%d bytes): expected a file of kvreplay replay --profile", info.Size())
	}
	text, ok := pf.Lookup("kvreplay.profile")
	if !ok {
		return nil, errors.New("metadata lacks the key kvreplay.profile: expected a file of kvreplay replay --profile")
	}
	p = &profileFile{path: path, file: file, text: text}
	p.digest, _ = pf.Lookup("kvreplay.profile.digest")
	if err := json.Unmarshal([]byte(text), &p.meta); err != nil {
		return nil, fmt.Errorf("metadata kvreplay.profile: %w: replay the trace again", err)
	}
	if p.meta.Schema != replay.ProfileSchema {
		return nil, fmt.Errorf("schema %d, expected %d: %w", p.meta.Schema, replay.ProfileSchema, ErrSchema)
	}
	outliers, err := replay.ParseOutliers(p.meta.Outliers)
	if err != nil {
		return nil, fmt.Errorf("metadata kvreplay.profile: %w: replay the trace again", err)
	}
	p.meta.OutlierBlocks = outliers.Count
	if m := &p.meta; m.TopK < 1 || min(m.Sink, m.Local, m.BlockTokens, m.SharedHeads, m.StepTokens) < 0 {
		return nil, fmt.Errorf("metadata kvreplay.profile: K %d, sink %d, local %d, blocks of %d tokens and %d heads, steps of %d tokens: expected K of at least 1, the others not negative", m.TopK, m.Sink, m.Local, m.BlockTokens, m.SharedHeads, m.StepTokens)
	}
	if said := slices.Concat(p.meta.Labels, p.meta.Oracles); !result.Printable(strings.Join(said, "")) {
		return nil, fmt.Errorf("metadata kvreplay.profile: labels or oracles %q are not printable: replay the trace again", said)
	}
	if err := checkColumns(pf); err != nil {
		return nil, err
	}
	if err := checkPlaces(pf); err != nil {
		return nil, err
	}
	p.rows = parquet.NewGenericReader[replay.ProfileRow](file, parquet.SchemaOf(replay.ProfileRow{}))
	return p, nil
}

// checkColumns refuses files that lack a column or have it with another type, in the schema or in a
// row group. The library would misread such bytes.
func checkColumns(f *parquet.File) error {
	schema := parquet.SchemaOf(replay.ProfileRow{})
	for _, path := range schema.Columns() {
		name := strings.Join(path, ".")
		want, _ := schema.Lookup(path...)
		got, ok := f.Schema().Lookup(path...)
		if !ok {
			return fmt.Errorf("no column %s", name)
		}
		kind := want.Node.Type().Kind()
		if got.Node.Type().Kind() != kind || got.MaxRepetitionLevel != want.MaxRepetitionLevel || got.MaxDefinitionLevel != want.MaxDefinitionLevel {
			return fmt.Errorf("column %s is %v, expected %v", name, got.Node, want.Node)
		}
		for i, g := range f.Metadata().RowGroups {
			if t := g.Columns[got.ColumnIndex].MetaData.Type; t != format.Type(kind) {
				return fmt.Errorf("row group %d: column %s holds %v, expected %v", i, name, t, kind)
			}
		}
	}
	return nil
}

// checkPlaces refuses files whose columns are not adjacent, as the writer places them. If a column
// overlapped the next one, the library would read wrong values. Package trace uses the smaller of
// two offsets, so it would accept damage in the other.
func checkPlaces(f *parquet.File) error {
	end := int64(len("PAR1"))
	for i, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			m := &c.MetaData
			begin := m.DataPageOffset
			if m.DictionaryPageOffset != 0 {
				begin = m.DictionaryPageOffset
			}
			if begin != end {
				return fmt.Errorf("row group %d: column %s begins at byte %d, expected %d: the file is damaged", i, strings.Join(m.PathInSchema, "."), begin, end)
			}
			end += m.TotalCompressedSize
		}
	}
	return nil
}

func (p *profileFile) close() { p.file.Close() }

// each calls use for every row, and reuses the row. At the end it checks the file's digest.
func (p *profileFile) each(ctx context.Context, use func(*replay.ProfileRow) error) (err error) {
	defer recovered(p.path, &err)
	rows, at, sum := make([]replay.ProfileRow, 1024), 0, replay.NewProfileSum()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := p.rows.Read(rows)
		for i := range rows[:n] {
			sum.Add(&rows[i])
			if e := use(&rows[i]); e != nil {
				return fmt.Errorf("profile %s: row %d: %w", p.path, at+i, e)
			}
		}
		at += n
		switch {
		case errors.Is(err, io.EOF):
			if got := sum.Digest(p.text); p.digest != "" && got != p.digest {
				return fmt.Errorf("profile %s: rows or metadata changed after writing (digest %s, stored %s): replay the trace again with --fresh", p.path, got, p.digest)
			}
			return nil
		case err != nil:
			return fmt.Errorf("profile %s: row %d: %w", p.path, at, err)
		case n == 0:
			return fmt.Errorf("profile %s: row %d: no more data, expected the end of the file", p.path, at)
		}
	}
}

func cellOf(r *replay.ProfileRow) Cell {
	return Cell{Policy: r.Policy, Capacity: optional.Or(r.Capacity, "")}
}

// Cells lists the cells of a profile, in the order of the file.
func Cells(ctx context.Context, path string) (cells []Cell, err error) {
	p, err := openProfile(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	seen := map[Cell]bool{}
	err = p.each(ctx, func(r *replay.ProfileRow) error {
		if c := cellOf(r); r.Tier == 0 && !seen[c] {
			seen[c] = true
			cells = append(cells, c)
		}
		return nil
	})
	return cells, err
}

// ErrSchema is wrapped by the error of a profile that another version of kvreplay wrote.
var ErrSchema = errors.New("replay the trace again")

// Oracles returns the policies of a profile that see the future.
func Oracles(path string) ([]string, error) {
	p, err := openProfile(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.meta.Oracles, nil
}

// Choose finds the only cell with this policy and capacity. Either may be empty if the other
// identifies the cell.
func Choose(cells []Cell, policy, capacity string) (Cell, error) {
	var known, ran []string
	for _, c := range cells {
		known, ran = append(known, c.String()), append(ran, c.Policy)
	}
	policy, capacity = policies.Named(policy, ran), result.CapacityText(capacity)
	fit := slice.Filter(cells, func(c Cell) bool {
		return (policy == "" || c.Policy == policy) && (capacity == "" || result.CapacityText(c.Capacity) == capacity)
	})
	if len(fit) == 1 {
		return fit[0], nil
	}
	has := strings.Join(known, ", ")
	if policy == "" && capacity == "" {
		return Cell{}, fmt.Errorf("the profile has %d cells: choose one with --policy and --capacity: %s", len(cells), has)
	}
	want := Cell{Policy: policy, Capacity: capacity}.String()
	if policy == "" {
		want = "at " + capacity
	}
	if len(fit) == 0 {
		return Cell{}, fmt.Errorf("the profile has no cell %s%s; it has: %s", want, names.Nearest(want, known), has)
	}
	return Cell{}, fmt.Errorf("%d cells of the profile match %s, expected one; it has: %s", len(fit), want, has)
}

// ReadProfiles reads several cells of a profile in one pass.
func ReadProfiles(ctx context.Context, path string, cells []Cell) (profiles []*Profile, err error) {
	return ReadPlaced(ctx, path, cells, nil)
}

// ReadPlaced reads several cells of a profile in one pass. If a layout is given, it counts the reads
// of an SSD with this layout. The profile then has the missed blocks of a tier.
func ReadPlaced(ctx context.Context, path string, cells []Cell, layout *Layout) (profiles []*Profile, err error) {
	p, err := openProfile(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	for _, c := range cells {
		if outdated, err := p.meta.Outdated(filepath.Dir(path), c.Policy, c.Capacity); err != nil || outdated {
			return nil, cmp.Or(err, fmt.Errorf("profile %s is older than a change of a policy of %s: repeat its replay command with --profile", path, c))
		}
	}
	var pack Packer
	if layout != nil && layout.Packing != nil {
		if pack, err = layout.Packing(&p.meta); err != nil {
			return nil, err
		}
	}
	gatherers := make([]*gatherer, len(cells))
	for i, c := range cells {
		gatherers[i] = &gatherer{profile: &Profile{Meta: p.meta, Cell: c, Placed: layout != nil}, streams: map[streamKey][]Counts{}, heads: map[int32]bool{}}
		if layout != nil {
			gatherers[i].placed = &placed{layout, pack, map[streamKey][][]int32{}}
		}
	}
	err = p.each(ctx, func(r *replay.ProfileRow) error {
		for i, c := range cells {
			if r.Tier == 0 && cellOf(r) == c || r.Tier > 0 && (r.Above == c.Policy || r.Above == c.Policy+"@"+c.Capacity) {
				if err := gatherers[i].add(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, g := range gatherers {
		if err := g.finish(); err != nil {
			return nil, fmt.Errorf("profile %s: %w", path, err)
		}
		profiles = append(profiles, g.profile)
	}
	return profiles, nil
}

type streamKey struct {
	request string
	layer   int32
	tier    int32
	head    int32 // -1 if the layer shares its selection
}

// gatherer collects rows.
type gatherer struct {
	profile *Profile
	streams map[streamKey][]Counts
	order   []string // requests in order
	heads   map[int32]bool
	placed  *placed // nil without a layout
}

func (g *gatherer) add(r *replay.ProfileRow) error {
	switch {
	case r.Tier > 1:
		return fmt.Errorf("the profile has two tiers below the GPU's cache, expected one of host memory")
	case min(r.Demand, r.Misses, r.MissRuns, r.Resident, r.Positions, r.SeqLen) < 0 || min(r.Moved, r.Listed) < 0:
		return errors.New("a negative count")
	case r.MissRuns > r.Misses || r.Tier == 0 && r.Misses > r.Demand:
		return fmt.Errorf("%d misses in %d runs contradict a demand of %d", r.Misses, r.MissRuns, r.Demand)
	}
	if r.Tier == 0 && g.profile.Lossy() { // attention reads every kept block
		r.Demand, r.Misses, r.MissRuns, r.Moved = r.Resident, 0, 0, 0
	}
	key := streamKey{r.RequestID, r.LayerID, r.Tier, optional.Or(r.Head, -1)}
	g.heads[key.head] = true
	steps := g.streams[key]
	if steps == nil && !slices.Contains(g.order, r.RequestID) {
		g.order = append(g.order, r.RequestID)
	}
	// Moves beyond the misses were prefetched, each block as a piece of its own. For a policy that
	// admits (block-lfu), a row has the number of entries, but not how many moved one by one. If
	// they are fewer than the blocks of the misses, they count as one piece per miss. Any further
	// entries count as pieces of whole blocks.
	m := &g.profile.Meta
	prefetched := max(0, r.Moved/int64(max(1, m.BlockTokens)*max(1, m.SharedHeads))-int64(r.Misses))
	if m.Clusters != "" { // they have unequal sizes, and nothing is prefetched
		prefetched = 0
	}
	c := Counts{Demand: int64(r.Demand), Listed: r.Listed, Fetched: int64(r.Misses) + prefetched, FetchedRuns: int64(r.MissRuns) + prefetched, Moved: r.Moved, Resident: int64(r.Resident),
		Positions: int64(r.Positions), SeqLen: int64(r.SeqLen), Prompt: int64(r.SeqLen - r.Step - 1)}
	if g.placed != nil && r.Tier == 1 {
		if n := len(r.MissedIndices); int(r.Misses) != n {
			return fmt.Errorf("%d missed blocks are listed, but %d missed: replay with --profile-indices", n, r.Misses)
		}
		g.placed.missed[key] = append(g.placed.missed[key], slices.Clone(r.MissedIndices))
	}
	g.streams[key] = append(steps, c)
	g.profile.Layers = slice.Add(g.profile.Layers, r.LayerID)
	g.profile.Tiered = g.profile.Tiered || r.Tier == 1
	return nil
}

// finish adds up the heads of each layer and checks for holes.
func (g *gatherer) finish() error {
	p := g.profile
	slices.Sort(p.Layers)
	p.Heads = len(g.heads)
	heads := slices.Sorted(maps.Keys(g.heads))
	if g.placed != nil && !p.Tiered {
		return errors.New("extents need reads from an SSD, and the profile has none: replay with a tier of host memory (--tier)")
	}
	for _, id := range g.order {
		q := Request{ID: id}
		for i, layer := range p.Layers {
			steps, err := g.layer(id, layer, heads)
			if err != nil {
				return err
			}
			if g.placed != nil {
				if err := g.placed.count(g, id, i, heads, steps); err != nil {
					return err
				}
			}
			if len(q.Steps) > 0 && len(steps) != len(q.Steps[0]) {
				return fmt.Errorf("request %s has %d steps in layer %d and %d in layer %d", id, len(q.Steps[0]), p.Layers[0], len(steps), layer)
			}
			q.Steps = append(q.Steps, steps)
		}
		p.Requests = append(p.Requests, q)
	}
	if len(p.Requests) == 0 {
		return fmt.Errorf("no rows of %s", p.Cell)
	}
	return nil
}

func (g *gatherer) layer(id string, layer int32, heads []int32) (sum []Counts, err error) {
	for _, h := range heads {
		own := g.streams[streamKey{id, layer, 0, h}]
		if len(own) == 0 || sum != nil && len(own) != len(sum) {
			return nil, fmt.Errorf("request %s, layer %d, head %d has %d steps, expected as many as the others", id, layer, h, len(own))
		}
		if sum == nil {
			sum = make([]Counts, len(own))
		}
		lower := g.streams[streamKey{id, layer, 1, h}]
		if g.profile.Tiered && len(lower) != len(own) {
			return nil, fmt.Errorf("request %s, layer %d, head %d has %d steps in the tier below, expected %d", id, layer, h, len(lower), len(own))
		}
		for i := range own {
			c, o := &sum[i], &own[i]
			c.add(o, 1)
			c.Positions, c.SeqLen, c.Prompt = max(c.Positions, o.Positions), max(c.SeqLen, o.SeqLen), max(c.Prompt, o.Prompt) // equal in all heads
			if g.profile.Tiered {
				b := &lower[i]
				c.add(&Counts{SSDFetched: b.Fetched, SSDMoved: b.Moved, SSDRuns: b.FetchedRuns, Below: b.Resident}, 1)
			}
		}
	}
	return sum, nil
}

// JoinProfiles returns a profile with the requests of several profiles of one policy. They must agree in K,
// blocks, pins, layers and heads. Requests are numbered by their profile, as in "1:ID".
func JoinProfiles(profiles []*Profile) (*Profile, error) {
	if len(profiles) == 0 {
		return nil, fmt.Errorf("no profiles, expected at least one")
	}
	joined := *profiles[0]
	if len(profiles) == 1 {
		return &joined, nil
	}
	joined.Requests = nil
	for i, p := range profiles {
		a, b := &joined.Meta, &p.Meta
		switch {
		case a.TopK != b.TopK || a.BlockTokens != b.BlockTokens || a.ListTokens != b.ListTokens || a.Sink != b.Sink || a.Local != b.Local || a.SharedHeads != b.SharedHeads || a.StepTokens != b.StepTokens:
			return nil, fmt.Errorf("profiles of %s and %s differ in K, blocks, pins or positions: price them apart", a.Trace, b.Trace)
		case joined.Heads != p.Heads || !slices.Equal(joined.Layers, p.Layers) || joined.Tiered != p.Tiered || joined.Placed != p.Placed:
			return nil, fmt.Errorf("profiles of %s and %s differ in layers, heads or tiers: price them apart", a.Trace, b.Trace)
		}
		for _, r := range p.Requests {
			joined.Requests = append(joined.Requests, Request{ID: fmt.Sprintf("%d:%s", i, r.ID), Steps: r.Steps})
		}
	}
	return &joined, nil
}

// Replay runs a job and returns its result with the profiles of its cells, in the order of the cells.
// They pass through a file in a temporary folder, which is removed.
func Replay(ctx context.Context, job *replay.Job) (*replay.Result, []*Profile, error) {
	dir, err := os.MkdirTemp("", "kvreplay-profile-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "profile.parquet")
	p, err := replay.CreateProfile(path, false)
	if err != nil {
		return nil, nil, err
	}
	defer p.Abort()
	if err := job.Record(p); err != nil {
		return nil, nil, err
	}
	done, err := job.Run(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := p.Close(); err != nil {
		return nil, nil, err
	}
	var cells []Cell
	for i := range done.Rows {
		r := &done.Rows[i]
		if r.Tier == 0 {
			cells = slice.Add(cells, Cell{Policy: r.Policy, Capacity: optional.Or(r.Capacity, "")})
		}
	}
	profiles, err := ReadProfiles(ctx, path, cells)
	return done, profiles, err
}

// Decodes reports whether a schedule can decode with the policy of a profile. Only kept does so with a
// lossy policy. Schedules that attend to the whole context need no policy.
func Decodes(s schedule.Schedule, p *Profile) bool {
	if p.Lossy() {
		return !schedule.Selects(s)
	}
	return s.Traits().Moves != schedule.MovesDropped
}
