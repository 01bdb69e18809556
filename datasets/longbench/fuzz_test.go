package longbench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kvreplay/kvreplay/internal/fatal"
)

// FuzzRows checks that any bytes give whole rows, or one error at the end with a line of the file.
func FuzzRows(f *testing.F) {
	for _, q := range readV2(f) {
		q["context"] = q["context"][:20]
		text, err := json.Marshal(q)
		fatal.If(f, err)
		f.Add(text)
	}
	f.Add([]byte(row("1", "lcc", "c")))
	f.Add([]byte("[" + strings.TrimSpace(row("1", "lcc", "c")) + "]"))
	f.Add([]byte(" [ ] "))
	f.Add([]byte("{}\n{\n}"))
	f.Add([]byte("[{},\n{\n}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := bytes.Count(data, []byte("\n")) + 1
		check := func(err error, failed *bool) {
			if *failed {
				t.Fatal("more after an error")
			}
			*failed = err != nil
			if e, ok := err.(*RowError); ok && (e.Line < 1 || e.Line > lines || e.Row < 1) {
				t.Fatalf("line %d of %d, row %d", e.Line, lines, e.Row)
			}
		}
		failed, n := false, 0
		for r, err := range rows(values("f", bytes.NewReader(data)), parseRow) {
			check(err, &failed)
			if err == nil && (r.Context == "" || r.ID == "" || len(r.Answers) == 0 || r.Position != n || !utf8.ValidString(r.Context)) {
				t.Fatalf("row %+v", r)
			}
			n++
		}
		if n == 0 && !failed {
			t.Fatal("neither rows nor an error")
		}
		failed, n = false, 0
		for q, err := range rows(values("f", bytes.NewReader(data)), parseQuestion) {
			check(err, &failed)
			if err == nil && (q.validate() != nil || q.Position != n || q.Fill() == "") {
				t.Fatalf("question %+v", q)
			}
			n++
		}
	})
}
