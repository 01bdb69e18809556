package trace

import (
	"errors"
	"fmt"
	"io"
)

// errNoIndex says that the pages of a chunk cannot be found by row.
var errNoIndex = errors.New("no offset index")

// pagePlace is where a data page lies and its first row.
type pagePlace struct{ at, row int64 }

// checkOffsetIndex holds the offset index of a column chunk, which has no checksum,
// against the page headers, and leaves it loaded for seeking. errNoIndex: the file
// has none, or its pages do not say how many rows they hold (lists in data pages v1).
func (f *File) checkOffsetIndex(g int, l leaf) error {
	chunk := &f.parquet.Metadata().RowGroups[g].Columns[l.index]
	if chunk.OffsetIndexOffset == 0 || chunk.OffsetIndexLength == 0 {
		return errNoIndex
	}
	places, err := f.pagePlaces(g, l)
	if err != nil {
		return err
	}
	raw := make([]byte, chunk.OffsetIndexLength)
	if _, err := f.source.ReadAt(raw, chunk.OffsetIndexOffset); err != nil && err != io.EOF {
		return err
	}
	if err := checkThrift(raw); err != nil {
		return fmt.Errorf("column %s: offset index: %w", l.name, err)
	}
	index, err := f.parquet.RowGroups()[g].ColumnChunks()[l.index].OffsetIndex()
	if err != nil {
		return err
	}
	if index.NumPages() != len(places) {
		return fmt.Errorf("column %s: offset index of %d pages, column chunk of %d", l.name, index.NumPages(), len(places))
	}
	for i, p := range places {
		if index.Offset(i) != p.at || index.FirstRowIndex(i) != p.row {
			return fmt.Errorf("column %s: offset index puts page %d at byte %d row %d, page headers at byte %d row %d",
				l.name, i, index.Offset(i), index.FirstRowIndex(i), p.at, p.row)
		}
	}
	return nil
}

// pagePlaces lists the data pages of a chunk by their headers.
func (f *File) pagePlaces(g int, l leaf) (places []pagePlace, err error) {
	var row int64
	err = f.walkPages(&f.parquet.Metadata().RowGroups[g].Columns[l.index].MetaData, func(p *pageHead) error {
		if !p.isData() {
			return nil
		}
		places = append(places, pagePlace{p.at, row})
		switch {
		case p.DataPageHeaderV2.Valid:
			row += int64(p.DataPageHeaderV2.V.NumRows)
		case l.list:
			return errNoIndex
		default:
			row += p.values()
		}
		return nil
	})
	if errors.Is(err, errNoIndex) {
		return nil, errNoIndex
	}
	return places, err
}
