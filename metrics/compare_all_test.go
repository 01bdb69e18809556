package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func mustCompareAll(t *testing.T, rows []Row, b string) *Comparisons {
	t.Helper()
	all, err := CompareAll(rows, b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCompareAllByHand: of seven requests close differs from best in neither direction, worse
// loses all: p = 2 ÷ 2⁷, of two tests twice that. OPT is a bound and not tested.
func TestCompareAllByHand(t *testing.T) {
	g := mustCompareAll(t, lettered(), "best").Groups[0]
	var got []string
	for _, p := range g.Policies {
		got = append(got, fmt.Sprint(p.A, " ", p.Bound, " ", p.Better != nil && *p.Better == "best"))
	}
	if want := "close false false|worse false true|opt true false"; strings.Join(got, "|") != want {
		t.Fatalf("%q, want %q", strings.Join(got, "|"), want)
	}
	closest, worse, opt := g.Policies[0], g.Policies[1], g.Policies[2]
	if *worse.P != 2./128 || math.Abs(*worse.PHolm-4./128) > 1e-9 || *closest.PHolm != *closest.P || opt.PHolm != nil {
		t.Errorf("p %v → %v, %v → %v, %v", *worse.P, *worse.PHolm, *closest.P, *closest.PHolm, opt.PHolm)
	}
	// The figures are those of the two alone.
	if alone := mustCompare(t, lettered(), "worse", "best").Groups[0].Pooled; alone.Ratio.Value != worse.Ratio.Value || *alone.P != *worse.P {
		t.Errorf("%+v, alone %+v", worse.Contest, alone)
	}
}

// TestCompareAllNeedsMoreRequests: six requests decide one test, and not one of two.
func TestCompareAllNeedsMoreRequests(t *testing.T) {
	rows := slices.DeleteFunc(lettered(), func(r Row) bool { return *r.RequestID == "r006" })
	if mustCompare(t, rows, "worse", "best").Groups[0].Pooled.Better == nil {
		t.Error("six requests cannot decide one test")
	}
	all := mustCompareAll(t, rows, "best")
	var out bytes.Buffer
	if err := all.RenderTable(&out); err != nil {
		t.Fatal(err)
	}
	if words := lineOf(t, out.String(), "worse"); strings.Join(words[len(words)-3:], " ") != "n = 6" || !strings.Contains(out.String(), "N requests cannot decide, 7 can") {
		t.Errorf("%q in\n%s", words, &out)
	}
}

// TestCompareAllLeavesOut: lossy policies, and those that ran elsewhere, are named in notes; a
// policy with fewer cells is marked as such.
func TestCompareAllLeavesOut(t *testing.T) {
	rows := append(handRows(), row("a", "lossy", "1x", 9), row("c", "late", "1x", 9), row("a", "few", "1x", 61))
	g := mustCompareAll(t, rows, "lru").Groups[0]
	var names []string
	for _, p := range g.Policies {
		names = append(names, fmt.Sprint(p.A, p.Cells))
	}
	if want := []string{"p3", "few1", "opt3"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	wantNote(t, g.Notes, "not compared, as they share no trace and capacity with lru: late")
	wantNote(t, g.Notes, "not compared, as they are lossy (kvreplay leaderboard ranks their recall): lossy")
	wantNote(t, g.Notes, "those with fewer cells are not on one scale")
	wantFigure(t, "p", g.Policies[0].Ratio, math.Cbrt(0.5))
	wantFigure(t, "few", g.Policies[1].Ratio, 61./60)
}

func TestCompareAllRefuses(t *testing.T) {
	settings := handRows()
	settings[6].Sink = 4
	for _, c := range []struct {
		rows    []Row
		b, want string
	}{
		{append(handRows(), row("a", "lossy", "1x", 9)), "lossy", "it is lossy"},
		{settings, "lru", "sink=4"},
		{[]Row{row("a", "p", "1x", 1), row("a", "q", "2x", 1)}, "p", "no other policy ran at a trace and capacity where it did"},
		{[]Row{row("a", "p", "1x", 1)}, "p", "no other policy ran"},
	} {
		if _, err := CompareAll(c.rows, c.b, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("all with %s: error %v, want %q", c.b, err, c.want)
		}
	}
	var unknown *UnknownPolicy
	if _, err := CompareAll(handRows(), "lrv", Options{}); !errors.As(err, &unknown) {
		t.Errorf("unknown policy: %v", err)
	}
}

func TestCompareAllRenderings(t *testing.T) {
	all := mustCompareAll(t, synthetic(), "lru")
	for name, render := range map[string]func(io.Writer) error{"compare_all.txt": all.RenderTable, "compare_all.md": all.RenderMarkdown} {
		var out bytes.Buffer
		if err := render(&out); err != nil {
			t.Fatal(err)
		}
		golden(t, name, out.Bytes())
	}
	text := document(t, "README.md")
	for _, name := range jsonNames(reflect.TypeFor[Comparisons]()) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("README.md does not document `%s`", name)
		}
	}
	var out bytes.Buffer
	if err := all.RenderJSON(&out); err != nil || strings.Contains(out.String(), `"notes": null`) || !strings.Contains(out.String(), `"p_holm": 0.0078125`) {
		t.Errorf("%v\n%s", err, &out)
	}
}
