package batch

import (
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kvreplay/kvreplay/internal/table"
	"github.com/kvreplay/kvreplay/internal/text"
)

// meanOf returns the mean and half of its 95 % interval (Student's t), relative to the mean. With
// fewer than two values the interval is 0.
func meanOf(values []float64) (mean, half float64) {
	mean, sd := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	if n < 2 || mean == 0 {
		return mean, 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean, t * sd / math.Sqrt(n) / mean
}

// Cluster describes the machines of a simulation. Its speeds are assumed unless the user states
// them.
type Cluster struct {
	Workers int     // tasks that run at the same time
	Cores   int     // cores of a task
	Link    float64 // bytes a second that a task reads
	Store   float64 // bytes a second that the storage serves to all tasks together
	Lost    float64 // mean hours until a task is preempted or its node fails. 0: never
}

// DefaultCluster returns 1,000 tasks of one core, 125 MB/s for each, and 10 GB/s for all.
func DefaultCluster() Cluster { return Cluster{Workers: 1000, Cores: 1, Link: 125e6, Store: 10e9} }

// ParseCluster reads "workers=1000,link=125MB,store=10GB,lost=8", in any order. Keys that are left
// out have the values of DefaultCluster.
func ParseCluster(cluster string) (c Cluster, err error) {
	c = DefaultCluster()
	for _, item := range strings.Split(cluster, ",") {
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "workers":
			c.Workers, err = strconv.Atoi(value)
		case "link":
			c.Link, err = parseBytes(value)
		case "store":
			c.Store, err = parseBytes(value)
		case "lost":
			c.Lost, err = strconv.ParseFloat(value, 64)
		default:
			return c, fmt.Errorf("%q: expected workers=N, link=BYTES, store=BYTES or lost=HOURS, separated by commas", item)
		}
		if err != nil {
			return c, fmt.Errorf("%q: expected a number, with a unit for bytes, as in workers=1000, link=125MB or lost=8", item)
		}
	}
	if c.Workers < 1 || c.Workers > 1e6 || !(c.Link > 0) || !(c.Store > 0) || !(c.Lost >= 0) || math.IsInf(c.Lost, 0) {
		return c, fmt.Errorf("%q: expected 1 to 1,000,000 workers and speeds above 0", cluster)
	}
	return c, nil
}

func parseBytes(size string) (float64, error) {
	size = strings.TrimSuffix(size, "/s")
	if !strings.HasSuffix(strings.ToUpper(size), "B") {
		return 0, errors.New("no unit")
	}
	n, err := humanize.ParseBytes(size)
	return float64(n), err
}

// Assumptions of a simulation. A node's speed is log-normal around the
// measured one, and a few nodes are slow.
const (
	speedSpread = 0.15            // standard deviation of the logarithm of a task's speed
	slowShare   = 0.02            // share of tasks that run at half speed
	startUp     = 5 * time.Second // from one shard to the next: start, batch file, opening the traces
	restart     = time.Minute     // until a lost task runs again
	lostCounts  = 30 * time.Second
)

// Simulation is the outcome of a batch on a cluster.
type Simulation struct {
	Cluster
	Makespan, Ideal float64 // hours, from the first start to the last pack, and without any loss
	Wasted          float64 // core-hours that lost tasks had not saved
	Alone           []Alone // the least times of each resource by itself
}

// Alone is the least time that one resource needs.
type Alone struct {
	Resource string
	Hours    float64
}

// Efficiency returns the share of the cluster's core-hours that count streams.
func (s *Simulation) Efficiency() float64 { return s.Ideal / s.Makespan }

// task is a simulated task that is free at a time.
type task struct {
	free  float64 // seconds
	speed float64 // seconds for a core-second of the measured machine
}

type tasks []task

func (t tasks) Len() int           { return len(t) }
func (t tasks) Less(i, j int) bool { return t[i].free < t[j].free }
func (t tasks) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *tasks) Push(x any)        { *t = append(*t, x.(task)) }
func (t *tasks) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}

// Simulate runs the shards on a simulated cluster. A free task takes the next shard, as the queue
// of an engine does. The same batch and cluster give the same result.
func (p *Plan) Simulate(c Cluster) *Simulation {
	r := rand.New(rand.NewPCG(27, 7))
	free := make(tasks, c.Workers)
	power := 0.0 // core-seconds of the measured machine that all tasks compute in a second
	for i := range free {
		free[i].speed = math.Exp(speedSpread * r.NormFloat64())
		if r.Float64() < slowShare {
			free[i].speed *= 2
		}
		power += float64(c.Cores) / free[i].speed
	}
	link := min(c.Link, c.Store/float64(c.Workers))
	s := &Simulation{Cluster: c}
	end, longest, bytes := 0.0, 0.0, int64(0)
	for _, shard := range p.Shards {
		bytes += shard.Bytes
		work := p.CoreHours(shard.Work) * 3600 / float64(c.Cores)
		longest = max(longest, work)
		for { // until an attempt is not lost
			t := heap.Pop(&free).(task)
			ready := startUp.Seconds() + float64(shard.Bytes)/link
			needs, lost := ready+work*t.speed, math.Inf(1)
			if c.Lost > 0 {
				lost = r.ExpFloat64() * c.Lost * 3600
			}
			if lost >= needs {
				t.free += needs
				end = max(end, t.free)
				heap.Push(&free, t)
				break
			}
			saved := max(0, lost-ready-lostCounts.Seconds())
			s.Wasted += max(0, lost-ready-saved) * float64(c.Cores) / 3600
			work -= saved / t.speed
			t.free += lost + restart.Seconds()
			heap.Push(&free, t)
		}
	}
	s.Makespan, s.Ideal = end/3600, p.CoreHours(p.Work())/power
	s.Alone = []Alone{
		{"compute", s.Ideal},
		{longestShard, longest / 3600},
		{"reading the traces", float64(bytes) / link / float64(c.Workers) / 3600},
		{"starts of tasks", startUp.Seconds() * float64(len(p.Shards)) / float64(c.Workers) / 3600},
	}
	return s
}

// Bottleneck returns the resource that takes the longest by itself. It may be the tail: the time in
// which tasks do nothing, because no shard is left.
func (s *Simulation) Bottleneck() string {
	most := Alone{"too few shards, tasks wait for the last ones (lower --hours)", s.Makespan}
	for _, a := range s.Alone {
		if a.Resource != longestShard {
			most.Hours -= a.Hours
		}
	}
	for _, a := range s.Alone {
		if a.Resource != longestShard && a.Hours > most.Hours {
			most = a
		}
	}
	return most.Resource
}

const longestShard = "the longest shard"

// Write prints the simulation and its assumptions.
func (s *Simulation) Write(w io.Writer) error {
	t := table.New("simulated", "")
	t.Add("tasks", fmt.Sprintf("%s of %s", humanize.Comma(int64(s.Workers)), text.Count(s.Cores, "core")))
	t.Add("makespan", hours(s.Makespan))
	t.Add("efficiency", fmt.Sprintf("%.0f %% of the tasks' computing power", 100*s.Efficiency()))
	t.Add("bottleneck", s.Bottleneck())
	for _, a := range s.Alone {
		t.Add(a.Resource, hours(a.Hours)+" alone")
	}
	if s.Lost > 0 {
		t.Add("lost work", fmt.Sprintf("%.0f core-hours", s.Wasted))
	}
	lost := "no task is lost"
	if s.Lost > 0 {
		lost = fmt.Sprintf("a task is lost every %g h", s.Lost)
	}
	t.Notes = []string{fmt.Sprintf("Assumed: %s/s for each task, %s/s for all, speeds ± %.0f %%, %.0f %% of the tasks at half speed,",
		humanize.Bytes(uint64(s.Link)), humanize.Bytes(uint64(s.Store)), 100*speedSpread, 100*slowShare),
		fmt.Sprintf("%v to start a shard, %s.", startUp, lost)}
	_, err := io.WriteString(w, t.Text())
	return err
}

// hours formats hours, or minutes and seconds for short times.
func hours(h float64) string {
	switch {
	case h < 1.0/60:
		return fmt.Sprintf("%.1f s", h*3600)
	case h < 1:
		return fmt.Sprintf("%.1f min", h*60)
	}
	return fmt.Sprintf("%.1f h", h)
}
