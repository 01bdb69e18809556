package result_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
	"github.com/kvreplay/kvreplay/metrics/rowstest"
)

// Every setting is a field of rows. Rows that differ in one are distinguished and never pooled.
// Settings except those that describe the trace make them two cells or two versions.
func TestEverySetting(t *testing.T) {
	described := []string{"model", "selector", "selector_recall"}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[result.Setting]()) {
		name := f.Tag.Get("json")
		if !slices.Contains(result.FieldNames(), name) {
			t.Errorf("rows have no field %s", name)
		}
		r, other := rowstest.Row("a", "lru", "1x", 5), rowstest.Row("a", "lru", "1x", 5)
		v := reflect.ValueOf(&other.Setting).Elem().FieldByIndex(f.Index)
		switch v.Kind() {
		case reflect.String:
			v.SetString("other")
		case reflect.Int:
			v.SetInt(77)
		case reflect.Uint64:
			v.SetUint(77)
		case reflect.Pointer:
			v.Set(reflect.New(f.Type.Elem()))
		}
		if d := r.Differences(&other); len(d) != 1 || d[0].Field != name {
			t.Errorf("%s: differences %v", name, d)
		}
		same := result.FindIncomplete([]result.Row{other}, []result.Row{r}, result.Where{}) == nil
		if same != slices.Contains(described, name) {
			t.Errorf("%s: the rows are of one cell and version: %v", name, same)
		}
		if err := result.CheckSettings([]*result.Row{&r, &other}); err == nil || !strings.Contains(err.Error(), name+"=") {
			t.Errorf("%s: pooled, %v", name, err)
		}
		if r.Key() == other.Key() {
			t.Errorf("%s is not in the key", name)
		}
	}
}

// TestSettingsAreEqual: equal settings have equal keys, and no others. A new setting that is a pointer
// needs its own comparison.
func TestSettingsAreEqual(t *testing.T) {
	for _, name := range result.FieldNames() {
		for _, first := range []string{"", name} { // null and another value, or two values
			a, b := rowstest.Row("a", "p", "1x", 1), rowstest.Row("a", "p", "1x", 1)
			for _, r := range []*result.Row{&a, &b} {
				if first != "" {
					result.Change(r, name)
				}
			}
			if equal := result.SettingsEqual(&a.Setting, &b.Setting); !equal {
				t.Errorf("%s: equal settings differ", name)
			}
			b = rowstest.Row("a", "p", "1x", 1)
			result.Change(&b, name)
			a = rowstest.Row("a", "p", "1x", 1)
			if equal := result.SettingsEqual(&a.Setting, &b.Setting); equal != (a.Setting.Key() == b.Setting.Key()) {
				t.Errorf("%s: equal is %v", name, equal)
			}
		}
	}
}
