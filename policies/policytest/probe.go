package policytest

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/kvreplay/kvreplay/policies"
)

// probe stands between the engine and a policy. It gives the policy copies of every list, checks
// that the copies are unchanged, and overwrites them after the call. This exposes a policy that
// keeps a slice.
type probe struct {
	policy  policies.Policy
	rule    missRule
	spoil   bool   // overwrite the lent lists
	peek    bool   // ask a Peeker before every eviction
	single  bool   // ask for victims one by one
	inflate int    // factor by which Scope.Capacity is too large, 0 for none
	err     error  // first violation that the engine cannot see
	at      string // the call in progress, for panics
	scope   policies.Scope
	script  *script // receives every call, unless nil
	lent    []lent[int32]
	scores  lent[float32]
	dst     []int32

	told    policies.Step // the last step, for messages
	outside map[int32]bool
	gone    []int32 // victims of the last question, still in outside until the next step
	asked   string  // the last question and its answer

	answered bool    // whether a lossy policy has answered the first question of the stream
	ofPrompt []int32 // the blocks of the prompt that it dropped: its first answer
}

// lent is a list that the policy was given.
type lent[E comparable] struct {
	name       string
	list, copy []E // to their capacity, which lies behind the policy's end
}

// garbage overwrites lent lists and lies behind their ends.
const (
	garbage      = math.MinInt32
	garbageScore = -math.MaxFloat32
)

// lendList replaces a list by a copy with garbage behind its end. This exposes an append in place.
func lendList[E comparable](name string, list *[]E, garbage E) lent[E] {
	if *list == nil {
		return lent[E]{}
	}
	n := len(*list)
	room := append(slices.Clone(*list), garbage, garbage)
	*list = room[: n : n+2]
	return lent[E]{name, room, slices.Clone(room)}
}

func (l *lent[E]) changed() bool { return !slices.Equal(l.list, l.copy) }

func (l *lent[E]) spoil(garbage E) {
	for i := range l.list {
		l.list[i] = garbage
	}
}

// wrap returns the probe as the engine should see it. It has Bypass, Admits and Resize only if the
// policy has them.
func wrap(p *probe) policies.Policy {
	if p.rule == lose {
		return &lossyProbe{p}
	}
	b, bypasses := p.policy.(policies.Bypasser)
	r, resizes := p.policy.(policies.Resizer)
	_, admits := p.policy.(policies.Admitter)
	bypass, resize := &bypassProbe{p, b}, resizeProbe{p, r}
	switch {
	case admits && resizes:
		return struct {
			*bypassProbe
			admitProbe
			resizeProbe
		}{bypass, admitProbe{}, resize}
	case admits:
		return struct {
			*bypassProbe
			admitProbe
		}{bypass, admitProbe{}}
	case bypasses && resizes:
		return struct {
			*bypassProbe
			resizeProbe
		}{bypass, resize}
	case bypasses:
		return bypass
	case resizes:
		return struct {
			*probe
			resizeProbe
		}{p, resize}
	}
	return p
}

type bypassProbe struct {
	*probe
	bypasser policies.Bypasser
}

type resizeProbe struct {
	told    *probe
	resizer policies.Resizer
}

type admitProbe struct{}

// Admits marks the probe of an Admitter.
func (admitProbe) Admits() {}

// Needs returns the columns that the policy needs.
func (p *probe) Needs() policies.Needs { return policies.NeedsOf(p.policy) }

// Reset starts a stream.
func (p *probe) Reset(sc *policies.Scope) error {
	p.at, p.scope = "Reset", *sc
	if p.script != nil {
		p.script.scope = *sc
	}
	p.outside, p.gone, p.asked, p.told = map[int32]bool{}, p.gone[:0], "", policies.Step{}
	p.answered, p.ofPrompt = false, nil
	given := *sc
	given.Capacity *= max(1, p.inflate)
	was := given
	err := p.policy.Reset(&given)
	if given != was {
		p.fail("changes its Scope, which is read-only: copy it first")
	}
	if p.spoil {
		given = policies.Scope{Blocks: garbage, Capacity: garbage, Steps: garbage, Windows: garbage, Demand: garbage, PerStep: garbage}
	}
	return err
}

// Update applies a step.
func (p *probe) Update(s *policies.Step) {
	p.at = fmt.Sprintf("Update at T = %d", s.T)
	p.follow(s)
	given := p.lend(s)
	if p.script != nil {
		p.script.update(s)
	}
	p.policy.Update(given)
	p.takeBack(given)
}

// takeBack checks that the lent lists are unchanged, and spoils them.
func (p *probe) takeBack(given *policies.Step) {
	for _, l := range p.lent {
		if l.changed() {
			p.failChanged(l.name)
		}
	}
	if p.scores.changed() {
		p.failChanged(p.scores.name)
	}
	if p.spoil {
		for _, l := range p.lent {
			l.spoil(garbage)
		}
		p.scores.spoil(float32(math.NaN()))
		*given = policies.Step{T: garbage, Demand: garbage}
	}
}

func (p *probe) failChanged(list string) {
	p.fail("changes Step.%s: the lists of a Step are read-only, so copy one before a change or an append", list)
}

// follow updates E as the contract defines it.
func (p *probe) follow(s *policies.Step) {
	p.told, p.asked = *s, ""
	for _, x := range p.gone {
		delete(p.outside, x)
	}
	p.gone = p.gone[:0]
	for _, x := range s.Offered {
		p.outside[x] = true
	}
	for _, x := range s.Hit {
		delete(p.outside, x)
	}
	for _, x := range s.Exit {
		p.outside[x] = true
	}
}

// story describes the last step that the policy received, E at that time, and its answer.
func (p *probe) story() string {
	e := slices.Sorted(maps.Keys(p.outside))
	if p.rule == lose {
		return fmt.Sprintf("received: T = %d, |D_t| = %d, Offered %v, List %v\nholds %v%s", p.told.T, p.told.Demand, p.told.Offered, p.told.List, e, p.asked)
	}
	return fmt.Sprintf("received: T = %d, |D_t| = %d, Offered %v, Hit %v, Miss %v, Exit %v, Pass %v\nE is %v%s", p.told.T, p.told.Demand,
		p.told.Offered, p.told.Hit, p.told.Miss, p.told.Exit, p.told.Pass, e, p.asked)
}

// lend returns a copy of s with its own lists.
func (p *probe) lend(s *policies.Step) *policies.Step {
	p.lent = p.lent[:0]
	given := *s
	for _, l := range lists(&given) {
		p.lent = append(p.lent, lendList(l.name, l.list, garbage))
	}
	p.scores = lendList("Scores", &given.Scores, garbageScore)
	return &given
}

type namedList struct {
	name string
	list *[]int32
}

// lists returns the lists of a Step except Scores, which has no blocks.
func lists(s *policies.Step) []namedList {
	return []namedList{{"Offered", &s.Offered}, {"Hit", &s.Hit}, {"Miss", &s.Miss}, {"Exit", &s.Exit}, {"Pass", &s.Pass},
		{"Candidates", &s.Candidates}, {"Members", &s.Members}, {"Picked", &s.Picked}, {"List", &s.List}, {"OfferedNext", &s.OfferedNext},
		{"ExitNext", &s.ExitNext}, {"LeavingNext", &s.LeavingNext}, {"Leaving", &s.Leaving}}
}

// Evict calls the policy's Evict and checks the answer.
func (p *probe) Evict(n int, dst []int32) []int32 {
	p.at = fmt.Sprintf("Evict(%d)", n)
	var first int32
	var named bool
	if p.peek {
		first, named = p.asPeeked()
	}
	at := len(dst)
	if p.single && n > 1 {
		dst = p.oneByOne(n, dst)
	} else {
		dst = p.answer("Evict", dst, func(dst []int32) []int32 { return p.policy.Evict(n, dst) })
	}
	p.gone = append(p.gone[:0], dst[at:]...)
	if !p.answered {
		p.ofPrompt, p.answered = slices.Clone(p.gone), true
	}
	if p.script != nil {
		p.script.asked(callEvict, n, p.gone)
	}
	if p.peek {
		p.compare(first, named, p.gone)
	}
	return dst
}

// oneByOne requests n victims in n calls, or until the policy names none.
func (p *probe) oneByOne(n int, dst []int32) []int32 {
	for from, had := len(dst), -1; len(dst)-from < n && len(dst) > had; {
		had = len(dst)
		p.at = fmt.Sprintf("Evict(1) after %d victims", had-from)
		dst = p.answer("Evict", dst, func(dst []int32) []int32 { return p.policy.Evict(1, dst) })
	}
	return dst
}

// Resize passes on a changed capacity.
func (p resizeProbe) Resize(capacity int) {
	p.told.at = fmt.Sprintf("Resize(%d)", capacity)
	p.resizer.Resize(capacity)
}

// Bypass calls the policy's Bypass and checks the answer.
func (p *bypassProbe) Bypass(n int, dst []int32) []int32 {
	p.at = fmt.Sprintf("Bypass(%d)", n)
	at := len(dst)
	dst = p.answer("Bypass", dst, func(dst []int32) []int32 { return p.bypasser.Bypass(n, dst) })
	if p.script != nil {
		p.script.asked(callBypass, n, dst[at:])
	}
	return dst
}

// answer checks that a method appends to dst, and overwrites the buffer after copying the answer.
func (p *probe) answer(method string, dst []int32, call func([]int32) []int32) []int32 {
	p.dst = append(p.dst[:0], garbage, garbage)
	got := call(p.dst)
	if len(got) < 2 || got[0] != garbage || got[1] != garbage {
		p.fail("%s does not append to dst: return dst with the blocks behind its own", method)
		return append(dst, got...)
	}
	dst = append(dst, got[2:]...)
	p.asked = fmt.Sprintf("; %s returns %v", p.at, got[2:])
	if p.spoil {
		for i := range got {
			got[i] = garbage
		}
	}
	p.dst = got
	return dst
}

func (p *probe) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s: "+format, append([]any{p.at}, args...)...)
	}
}

// lossyProbe is the probe of lossy policies. Its outside set is the blocks that they hold.
type lossyProbe struct{ *probe }

// Prompt passes a copy of the prompt to the policy.
func (p *lossyProbe) Prompt(pr *policies.Prompt) {
	p.at = "Prompt"
	if p.script != nil {
		p.script.prompt(pr)
	}
	for x := pr.First; x < pr.End; x++ {
		p.outside[int32(x)] = true
	}
	l := lendPrompt(pr)
	p.policy.(policies.Lossy).Prompt(&l.given)
	if name := l.changed(); name != "" {
		p.fail("changes %s: a Prompt is read-only, so copy it first", name)
	}
	if p.spoil {
		l.spoil()
	}
}

// lentPrompt is a prompt that was lent to the policy.
type lentPrompt struct {
	given   policies.Prompt
	numbers policies.Prompt // its original values, without lists
	mass    lent[float32]
	demands []lent[int32]
}

// lendPrompt copies a prompt with its own lists.
func lendPrompt(pr *policies.Prompt) *lentPrompt {
	l := &lentPrompt{given: *pr, numbers: withoutLists(pr)}
	l.mass = lendList("Prompt.Mass", &l.given.Mass, garbageScore)
	l.given.Windows = slices.Clone(pr.Windows)
	for i := range l.given.Windows {
		l.demands = append(l.demands, lendList("Prompt.Windows", &l.given.Windows[i].Demand, garbage))
	}
	return l
}

func withoutLists(pr *policies.Prompt) policies.Prompt {
	numbers := *pr
	numbers.Mass, numbers.Windows = nil, nil
	return numbers
}

// changed names the field that the policy wrote to, or is empty.
func (l *lentPrompt) changed() string {
	if l.mass.changed() {
		return l.mass.name
	}
	for _, d := range l.demands {
		if d.changed() {
			return d.name
		}
	}
	if !reflect.DeepEqual(withoutLists(&l.given), l.numbers) {
		return "the numbers of its Prompt"
	}
	return ""
}

func (l *lentPrompt) spoil() {
	l.mass.spoil(float32(math.NaN()))
	for _, d := range l.demands {
		d.spoil(garbage)
	}
	l.given = policies.Prompt{Layer: garbage, Head: garbage, Blocks: garbage, First: garbage, End: garbage, Most: garbage}
}
