package trace

import (
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// probeOptional looks at the first row of every optional column.
func (f *File) probeOptional() error {
	first := slices.IndexFunc(f.parquet.RowGroups(), func(g parquet.RowGroup) bool { return g.NumRows() > 0 })
	if first < 0 {
		return nil // no rows: the directory says so
	}
	for c := colScores; c < numColumns; c++ {
		if l := f.leaves[c]; l.index >= 0 {
			var err error
			if f.present[c], err = firstPresent(f.parquet.RowGroups()[first], l); err != nil {
				return fmt.Errorf("column %s: %w", l.name, err)
			}
		}
	}
	return nil
}

// firstPresent reports whether the first row of a column is not null.
func firstPresent(group parquet.RowGroup, l leaf) (present bool, err error) {
	pages := group.ColumnChunks()[l.index].Pages()
	defer pages.Close()
	page, err := pages.ReadPage()
	if err != nil {
		return false, err
	}
	defer parquet.Release(page)
	from := l.maxDef
	if l.list {
		from = l.listDef
	}
	def := page.DefinitionLevels()
	return from == 0 || len(def) > 0 && def[0] >= from, nil
}
