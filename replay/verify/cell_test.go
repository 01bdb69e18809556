package verify

import (
	"reflect"
	"testing"

	"github.com/kvreplay/kvreplay/metrics/result"
)

// A row with another setting belongs to another cell, which is replayed with that setting. The
// trace's digest stands for its name and description, which are compared with those of the replay.
func TestEverySettingIsVerified(t *testing.T) {
	compared := map[string]bool{"Trace": true, "Model": true, "Selector": true, "SelectorRecall": true}
	var base result.Row
	for _, f := range reflect.VisibleFields(reflect.TypeFor[result.Setting]()) {
		r := base
		v := reflect.ValueOf(&r.Setting).Elem().FieldByIndex(f.Index)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int:
			v.SetInt(7)
		case reflect.Uint64:
			v.SetUint(7)
		case reflect.Pointer:
			v.Set(reflect.New(f.Type.Elem()))
		}
		if changed := cellOf(&r).key() != cellOf(&base).key(); changed == compared[f.Name] {
			t.Errorf("%s: another cell %v, expected %v", f.Name, changed, !compared[f.Name])
		}
		if len(r.Differences(&base)) != 1 {
			t.Errorf("%s is not compared", f.Name)
		}
	}
}
