package result_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/internal/fatal"
	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

func TestWhere(t *testing.T) {
	rows := append(rowstest.HandRows(), rowstest.Row("a", "lfu-decay:half_life=4", "2x", 5), rowstest.Row("a", "lfu-decay:half_life=8", "3x", 5), rowstest.Row("a", "lfu", "3x", 5), rowstest.Row("c.parquet", "fifo", "3x", 5))
	for _, c := range []struct {
		where string
		want  int
	}{
		{"policy=lfu-decay", 2}, {"policy!=lfu-decay", 11}, {"policy=lfu", 1}, {"policy=lfu-decay:half_life=4", 1},
		{"", 13}, {"policy=lru", 3}, {"policy=lru policy=opt", 6}, {"policy=lru trace=b", 1}, {"policy!=lru", 10},
		{"policy!=lru policy!=opt", 7}, {"capacity=2x", 4}, {"demand_mean=10.0", 13}, {"request_id=null", 13}, {"offline=true", 3},
		{"trace=c", 1}, {"trace=c.parquet", 1}, {"trace!=c", 12},
	} {
		w, err := result.ParseWhere(strings.Fields(c.where))
		fatal.If(t, err)
		if got, err := w.Filter(rows); err != nil || len(got) != c.want {
			t.Errorf("%q: %d rows, %v; want %d", c.where, len(got), err, c.want)
		}
	}
}

func TestWhereErrors(t *testing.T) {
	for text, want := range map[string]string{
		"policy": "want key=value", "polcy=lru": `unknown field "polcy", did you mean policy?`,
		"topk=many": `field topk: "many" is not an integer`, "warnings=x": "is a list",
	} {
		if _, err := result.ParseWhere([]string{text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q", text, err, want)
		}
	}
	w, err := result.ParseWhere([]string{"policy=fifo"})
	fatal.If(t, err)
	if _, err := w.Filter(rowstest.HandRows()); err == nil || !strings.Contains(err.Error(), "the rows have policy: lru, opt, p") {
		t.Errorf("error %v", err)
	}
	if w, err = result.ParseWhere([]string{"pool=-"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Filter(rowstest.HandRows()); err == nil || !strings.HasSuffix(err.Error(), "the rows have pool: '' (empty)") {
		t.Errorf("error %v", err)
	}
}

// TestCheckSettingsOfKinds: the check of one row for each kind and the check of all rows find the
// same, with the same text. Some rows differ in one or two fields.
func TestCheckSettingsOfKinds(t *testing.T) {
	names, failed := result.FieldNames(), 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		rows := rowstest.Synthetic()
		for range rng.IntN(3) {
			name := names[rng.IntN(len(names))]
			for range 1 + rng.IntN(4) {
				result.Change(&rows[rng.IntN(len(rows))], name)
			}
		}
		all := result.Pointers(rows)
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
		got, want := result.CheckSettings(all), result.CheckByRow(all)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: %v, row by row %v", seed, got, want)
		}
		if want != nil {
			failed++
		}
	}
	if failed < 100 || failed > 400 {
		t.Errorf("%d of 500 sets of rows are refused", failed)
	}
}
