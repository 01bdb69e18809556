// Package external asks another program for victims. The program is a child process, in any
// language, that speaks the protocol of PROTOCOL.md over its standard input and output.
//
// Idea: the engine keeps residency, counts and checks, as for policies in Go. The child gets the same
// lists and names the victims.
//
// Rule: that of the program. Steps without victims need no answer and are sent together with the
// next step that needs one. The program is started when a command line names it, and once for each
// worker. One child replays many streams, one after the other. If it can serve several streams at
// once, the questions of all of them are sent together.
//
// Options: the command, with words in the quotes of a shell. timeout=T before it is the longest time
// for an answer, such as 10s (default 1m). Cost: one message each way for a step with victims.
// Memory: that of the program. Stack property: not claimed. It loses time against a policy in Go.
package external

import (
	"cmp"
	_ "embed" // the package comment is the policy's documentation
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/kvreplay/kvreplay/policies"
)

//go:embed external.go
var source string

// Name is the policy's name, which a command follows.
const Name = "exec"

// Entry is the policy's line in the table. Its New starts the program, so the table must only parse
// names that a user typed.
var Entry = policies.Entry{
	Name:    Name,
	Summary: "asks another program for victims",
	Source:  "policies/external/PROTOCOL.md",
	Usage:   "exec:[timeout=T] COMMAND, as in exec:'python3 mine.py', T at least 1ms, default 1m",
	Example: "python3 mine.py",
	Doc:     policies.PackageComment(source),
	Traits:  policies.Traits{Sized: true, Memory: "its own", Cost: "a message per step"},
	New:     parse,
}

// Protocol is the version of the protocol.
const Protocol = 1

// defaultTimeout is the longest time for an answer.
const defaultTimeout = time.Minute

// The types of messages.
const (
	hello   = 'H' // both ways, JSON
	choose  = 'S' // the number of the stream that the following messages are about
	reset   = 'R' // JSON of a scope
	update  = 'U' // the lists of a step
	evict   = 'E' // the number of victims
	victims = 'V' // the answer to evict
)

// column is an optional list of an update.
type column struct {
	name  string
	needs policies.Needs
	list  func(*policies.Step) []int32
}

// columns are the optional lists of an update, in their order in messages. A child names those that
// it needs.
var columns = []column{
	{"candidates", policies.NeedCandidates, func(s *policies.Step) []int32 { return s.Candidates }},
	{"candidates?", policies.WantCandidates, func(s *policies.Step) []int32 { return s.Candidates }},
	{"demand", policies.NeedDemand, func(s *policies.Step) []int32 { return s.Members }},
	{"picked", policies.NeedPicked | policies.NeedDemand, func(s *policies.Step) []int32 { return s.Picked }},
	{"scores", policies.NeedScores, func(s *policies.Step) []int32 { return s.List }}, // and the scores
}

// program is a command with the children that it started.
type program struct {
	text    string // canonical
	words   []string
	timeout time.Duration
	said    greeting // the first one

	mu   sync.Mutex
	idle []*child
	all  []*child
}

// programs are those of this process, by timeout and text. They outlive the policies, so that a child is used
// again by the next one.
var programs = struct {
	sync.Mutex
	of map[string]*program
}{of: map[string]*program{}}

// parse starts the program and reads its needs.
func parse(text string) (func() policies.Policy, string, error) {
	programs.Lock()
	defer programs.Unlock()
	p, err := newProgram(text)
	if err != nil {
		return nil, "", err
	}
	key := p.timeout.String() + " " + p.text
	if known, ok := programs.of[key]; ok {
		p = known
	} else {
		c, said, err := p.start()
		if err != nil {
			return nil, "", err
		}
		p.said, p.idle = said, append(p.idle, c)
		programs.of[key] = p
	}
	return func() policies.Policy { return &Policy{program: p} }, p.text, nil
}

func newProgram(text string) (*program, error) {
	p := &program{text: strings.TrimSpace(text), timeout: defaultTimeout}
	if first, rest, ok := strings.Cut(p.text, " "); ok {
		if value, ok := strings.CutPrefix(first, "timeout="); ok {
			d, err := time.ParseDuration(value)
			if err != nil || d < time.Millisecond {
				return nil, fmt.Errorf("timeout %q: expected a time of at least 1ms, such as 10s", value)
			}
			p.timeout, p.text = d, strings.TrimSpace(rest)
		}
	}
	var err error
	if p.words, err = shellwords.Parse(p.text); err != nil {
		return nil, fmt.Errorf("command %q: %w: close its quotes", p.text, err)
	}
	if len(p.words) == 0 {
		return nil, errors.New("the command is missing")
	}
	return p, nil
}

// graceAtEnd is the time in which idle children may end by themselves, for example to write a profile.
// Tests make it longer.
var graceAtEnd = time.Second

// StopAll ends all children. It closes the input of idle ones first, and kills those that run on.
func StopAll() {
	programs.Lock()
	defer programs.Unlock()
	var all []*child
	for _, p := range programs.of {
		p.mu.Lock()
		for _, c := range p.idle {
			c.in.Close()
			time.AfterFunc(graceAtEnd, c.kill)
		}
		for _, c := range p.all {
			if !slices.Contains(p.idle, c) {
				c.kill()
			}
		}
		all = append(all, p.all...)
		p.idle, p.all = nil, nil
		p.mu.Unlock()
	}
	var ends sync.WaitGroup
	for _, c := range all { // a daemon of a program may keep its stderr open for graceOfMessages
		ends.Go(c.wait)
	}
	ends.Wait()
	clear(programs.of)
}

// mostChildren is the number of children from which take looks for those of policies that were
// dropped without Close.
const mostChildren = 32

// take returns an idle child, or a new one.
func (p *program) take() (*child, error) {
	for try := 0; ; try++ {
		p.mu.Lock()
		n, started := len(p.idle), len(p.all)
		if n > 0 {
			c := p.idle[n-1]
			p.idle = p.idle[:n-1]
			p.mu.Unlock()
			return c, nil
		}
		p.mu.Unlock()
		if started < mostChildren || try == 10 {
			c, said, err := p.start()
			if err == nil && said != p.said {
				c.kill()
				err = errors.New("the program greets otherwise than when it was started first: do not edit it during a replay")
			}
			return c, err
		}
		runtime.GC() // runs the cleanups of dropped policies
		time.Sleep(time.Millisecond)
	}
}

// give returns the child of a team after its last user, if it works.
func (p *program) give(t *team) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.users--; t.users > 0 {
		return
	}
	if !t.child.ended.Load() {
		p.idle = append(p.idle, t.child)
	}
	t.child = nil
}

// greeting is what a child says about itself.
type greeting struct {
	needs   policies.Needs
	version string
	streams int // that it serves at once
}

// start starts a child and exchanges greetings.
func (p *program) start() (c *child, g greeting, err error) {
	if c, err = p.launch(); err != nil {
		return nil, g, err
	}
	p.mu.Lock()
	p.all = append(p.all, c)
	p.mu.Unlock()
	text, err := json.Marshal(map[string]any{"protocol": Protocol})
	if err != nil {
		return nil, g, err
	}
	c.begin(hello)
	c.unsent = append(c.unsent, text...)
	c.end()
	var answer []byte
	if err = c.send(); err == nil {
		answer, err = c.receive(hello, mostHello)
	}
	if err != nil {
		return nil, g, fmt.Errorf("the program does not greet: %w", err)
	}
	var said struct {
		Protocol int      `json:"protocol"`
		Needs    []string `json:"needs"`
		Version  string   `json:"version"`
		Streams  int      `json:"streams"`
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.Protocol != Protocol {
		c.stop()
		return nil, g, fmt.Errorf("the program greets with %.100q, expected {\"protocol\": %d}", answer, Protocol)
	}
	for _, name := range said.Needs {
		i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		if i < 0 {
			c.stop()
			return nil, g, fmt.Errorf("the program needs %q, expected candidates, candidates?, demand, picked or scores", name)
		}
		g.needs |= columns[i].needs
	}
	g.version, g.streams = said.Version, max(1, said.Streams)
	return c, g, nil
}

// Policy asks a child.
type Policy struct {
	program *program
	child   *child
	err     error
	dropped runtime.Cleanup // gives the child back
	at      int32           // T of the last update
	blocks  int
	lists   [][]int32 // of the last update

	team     *team
	stream   int32  // its number in the child
	wait     func() // or nil
	answer   []int32
	answered bool
}

// team are the policies that use the same child. The program's mutex guards it.
type team struct {
	child   *child // nil if there are no users
	users   int
	streams int32
}

// Streams returns the number that the program named in its greeting.
func (p *Policy) Streams() int { return p.program.said.streams }

// Share makes p use the child of another policy of the same program.
func (p *Policy) Share(with policies.Policy, wait func()) {
	first := with.(*Policy)
	if first.team == nil {
		first.team = new(team)
	}
	p.team, p.wait = first.team, wait
}

// open takes a child, or that of the team. Only one policy of a team runs at a time.
func (p *Policy) open() error {
	if p.team == nil {
		p.team = new(team)
	}
	t, mu := p.team, &p.program.mu
	mu.Lock()
	used := t.child != nil
	if used {
		t.users++
	}
	mu.Unlock()
	if !used {
		c, err := p.program.take()
		if err != nil {
			return err
		}
		mu.Lock()
		*t = team{child: c, users: 1}
		mu.Unlock()
	}
	p.child, p.stream = t.child, t.streams
	t.streams++
	p.dropped = runtime.AddCleanup(p, p.program.give, t)
	return nil
}

// Needs returns the columns that the program named in its greeting.
func (p *Policy) Needs() policies.Needs { return p.program.said.needs }

// Version returns the version that the program named in its greeting.
func (p *Policy) Version() string { return p.program.said.version }

// works reports whether the child can be used. It ends if it fails in another stream.
func (p *Policy) works() bool {
	if p.err == nil && p.child != nil && p.child.ended.Load() {
		p.err = policies.ErrOtherStream
	}
	return p.err == nil && p.child != nil
}

// Reset starts a stream.
func (p *Policy) Reset(sc *policies.Scope) error {
	if !p.works() && p.err != nil {
		return p.err
	}
	if p.child == nil {
		if p.err = p.open(); p.err != nil {
			return p.err
		}
	}
	p.blocks = sc.Blocks
	c := p.child
	c.about(p.stream, reset)
	for i, f := range []struct {
		name  string
		value uint64
	}{{"blocks", uint64(sc.Blocks)}, {"capacity", uint64(sc.Capacity)}, {"steps", uint64(sc.Steps)}, {"windows", uint64(sc.Windows)},
		{"demand", uint64(sc.Demand)}, {"seed", sc.Seed}, {"updates", uint64(sc.Updates())}} {
		c.unsent = append(append(append(c.unsent, "{,"[min(i, 1)], '"'), f.name...), '"', ':')
		c.unsent = strconv.AppendUint(c.unsent, f.value, 10)
	}
	c.unsent = append(c.unsent, '}')
	c.end()
	return nil
}

// Update sends a step. Messages are sent together, see Evict.
func (p *Policy) Update(s *policies.Step) {
	if !p.works() {
		return
	}
	c := p.child
	p.at = s.T
	c.about(p.stream, update)
	c.number(s.T, int32(s.Demand))
	lists := append(p.lists[:0], s.Offered, s.Hit, s.Miss, s.Exit, s.Pass)
	for _, column := range columns {
		if p.program.said.needs&column.needs == column.needs {
			lists = append(lists, column.list(s))
		}
	}
	p.lists = lists
	for _, list := range lists {
		c.number(int32(len(list)))
	}
	for _, list := range lists {
		c.number(list...)
	}
	if p.program.said.needs&policies.NeedScores != 0 { // parallel to the last list
		for _, x := range s.Scores {
			c.unsent = binary.LittleEndian.AppendUint32(c.unsent, math.Float32bits(x))
		}
	}
	c.end()
	if len(c.unsent) > mostBuffered {
		for c.sent > 0 {
			c.next()
		}
		p.failed(c.send())
	}
}

// Evict asks for n victims. It asks nothing if n is 0.
func (p *Policy) Evict(n int, dst []int32) []int32 {
	if n == 0 || !p.works() {
		return dst
	}
	c := p.child
	c.about(p.stream, evict)
	c.number(int32(n))
	c.end()
	c.asked, p.answered = append(c.asked, p), false
	if p.wait != nil {
		p.wait()
	}
	for !p.answered {
		c.next()
	}
	if p.err != nil {
		return dst
	}
	return append(dst, p.answer...)
}

func (p *Policy) failed(err error) {
	if err != nil {
		p.err = fmt.Errorf("policy %s: step %d: %w", Name, p.at, err)
	}
}

// Failed ends the program, whose victims break the contract for a reason. It returns why the program
// gave no answer, or the reason with the program's last messages.
func (p *Policy) Failed(reason error) error {
	if p.works() {
		p.failed(p.child.broken(reason.Error(), ""))
		p.child.abandon()
	}
	return cmp.Or(p.err, reason)
}

// Close lets another policy use the child.
func (p *Policy) Close() error {
	if p.child != nil {
		p.dropped.Stop()
		p.program.give(p.team)
	}
	p.child, p.team = nil, nil
	return p.err
}
