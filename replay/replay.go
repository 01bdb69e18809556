package replay

import (
	"context"
	"io"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/policies"
	"github.com/kvreplay/kvreplay/replay/allocate"
	"github.com/kvreplay/kvreplay/replay/cache"
	"github.com/kvreplay/kvreplay/replay/demand"
	"github.com/kvreplay/kvreplay/replay/run"
	"github.com/kvreplay/kvreplay/replay/setting"
	"github.com/kvreplay/kvreplay/trace"
)

// EngineVersion names the replay semantics, see package run.
const EngineVersion = run.EngineVersion

// Run replays the trace of f with options o.
func Run(ctx context.Context, f *trace.File, o Options) (*Result, error) { return run.Run(ctx, f, o) }

// Plan plans a replay of the trace of f with options o. It returns an error if the options are
// invalid or the trace cannot serve them. It replays nothing.
func Plan(f *trace.File, o Options) (*Job, error) { return run.Plan(f, o) }

// Runs over a trace file: the options, the planned work and its result.
type (
	Options     = run.Options
	Detail      = run.Detail
	Job         = run.Job
	Result      = run.Result
	LeftOut     = run.LeftOut
	PlanError   = run.PlanError
	Interrupted = run.Interrupted
)

// Parts of a job, see run.Job.Count.
type (
	Checkpoint = run.Checkpoint
	Counting   = run.Counting
)

// Pooling of a cell's rows, see run.Detail.
const (
	PerCell    = run.PerCell
	PerRequest = run.PerRequest
	PerLayer   = run.PerLayer
	PerStream  = run.PerStream
)

// SummaryOf is one line about policies that were left out.
func SummaryOf(list []LeftOut) string { return run.SummaryOf(list) }

// UnstatedPins says which pins neither the options nor the trace states.
func UnstatedPins(m *trace.Meta, o *Options) (note string, names []string) {
	return run.UnstatedPins(m, o)
}

// CheckContext rejects a stream with a context that is too long for memory.
func CheckContext(m *trace.Meta, s *trace.StreamInfo) error { return demand.CheckContext(m, s) }

// Fingerprint names a policy by every decision that it takes on a fixed set of streams.
func Fingerprint(spec policies.Spec) string { return run.Fingerprint(spec) }

// Single streams in memory.
type (
	Engine        = run.Engine
	StreamOptions = run.StreamOptions
	CapacityAt    = cache.CapacityAt
	Counts        = cache.Counts
	Observer      = cache.Observer
	StepReport    = cache.StepReport
)

// Store keeps finished work in a folder.
type Store = run.Store

// DefaultCheckpoint is the interval at which a worker saves its counts.
const DefaultCheckpoint = run.DefaultCheckpoint

// OpenStore opens the store in dir. The first file that it keeps makes the folder.
func OpenStore(dir string) (*Store, error) { return run.OpenStore(dir) }

// Requested returns the cells that runs into the results folder dir requested.
func Requested(dir string) ([]result.Row, error) { return run.Requested(dir) }

// Stem is how the files that a run keeps of a trace begin.
func Stem(trace string) string { return run.Stem(trace) }

// RowsName is the name of the file that has the rows of a trace.
func RowsName(trace string) string { return run.RowsName(trace) }

// Profiles: the counts of every step.
type (
	Profile     = run.Profile
	ProfileMeta = run.ProfileMeta
	ProfileRow  = run.ProfileRow
)

// ProfileSchema is the version of the profile's columns.
const ProfileSchema = run.ProfileSchema

// CreateProfile opens a profile at path. With indices it has the missed blocks of each step.
func CreateProfile(path string, indices bool) (*Profile, error) {
	return run.CreateProfile(path, indices)
}

// NewProfileSum returns the sum of no rows.
func NewProfileSum() *run.ProfileSum { return run.NewProfileSum() }

// Clusters of tokens, see package demand.
type (
	Clusters      = demand.Clusters
	ClustersError = demand.ClustersError
)

// ParseClusters reads "lists", the path of a file of clusters, or either with ",page=N".
func ParseClusters(text string) (*Clusters, error) { return demand.ParseClusters(text) }

// WriteClusters writes the clusters of every stream of a trace as a file of clusters.
func WriteClusters(ctx context.Context, w io.Writer, f *trace.File) error {
	return demand.WriteClusters(ctx, w, f)
}

// PlannedCapacity is the capacity that a plan gives each layer and head.
func PlannedCapacity(p *allocate.Plan) Capacity { return run.PlannedCapacity(p) }

// Types of package setting that callers name.
type (
	Capacity   = setting.Capacity
	Warmup     = setting.Warmup
	WarmupKind = setting.WarmupKind
	Shape      = setting.Shape
	Pool       = setting.Pool
	Tier       = setting.Tier
)

// Values of these types, see package setting.
const (
	WarmupRun        = setting.WarmupRun
	WarmupCold       = setting.WarmupCold
	WarmupImportance = setting.WarmupImportance
	WarmupStaging    = setting.WarmupStaging
	PoolNone         = setting.PoolNone
	PoolLayer        = setting.PoolLayer
	PoolRequest      = setting.PoolRequest
)

// Readers of their texts.
var (
	ParseCapacity   = setting.ParseCapacity
	ParseCapacities = setting.ParseCapacities
	ParseWarmup     = setting.ParseWarmup
	ParsePool       = setting.ParsePool
	ParseOutliers   = setting.ParseOutliers
	ParsePrefetch   = setting.ParsePrefetch
	ParseTier       = setting.ParseTier
)
