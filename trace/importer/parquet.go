package importer

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/kvreplay/kvreplay/trace"
)

// decodeParquet reads a table of any writer, row by row.
func decodeParquet(s *source, c *collector) error {
	file, size, err := s.randomAccess()
	if err != nil {
		return err
	}
	foreign, err := trace.OpenForeign(file, size)
	if err != nil {
		return fmt.Errorf("damaged or cut off (a Parquet file ends in its directory): %w", err)
	}
	pf := foreign.Parquet()
	if err := checkCodecs(pf); err != nil {
		return err
	}
	if err := checkIntegrity(s, c, foreign, file, size); err != nil {
		return err
	}
	t := &parquetTable{source: s, c: c}
	if err := t.bind(pf); err != nil {
		return err
	}
	for _, group := range pf.RowGroups() {
		if group.NumRows() == 0 {
			continue
		}
		if err := t.group(group); err != nil {
			return err
		}
	}
	return nil
}

// checkCodecs reports a compression that the library may read back as other values.
func checkCodecs(pf *parquet.File) error {
	for _, g := range pf.Metadata().RowGroups {
		for i := range g.Columns {
			m := &g.Columns[i].MetaData
			if err := trace.CheckCodec(m.Codec); err != nil {
				return fmt.Errorf("column %s: %w; write the file again, by pyarrow with compression=\"zstd\"", m.PathInSchema[0], err)
			}
		}
	}
	return nil
}

// checkIntegrity verifies a trace that states a digest, checks a seal and page headers, and
// warns where nothing would show damage of pages.
func checkIntegrity(s *source, c *collector, foreign *trace.Foreign, file io.ReaderAt, size int64) error {
	if err := trace.CheckSeal(foreign.Parquet().Lookup); err != nil {
		return err
	}
	if _, stated := foreign.Parquet().Lookup(metaKey + ".digest"); stated {
		f, err := trace.OpenReader(s.path, file, size)
		if err != nil {
			return err
		}
		return f.Verify()
	}
	all, err := foreign.CheckPages()
	if err != nil {
		return fmt.Errorf("damaged, or not as Go's library reads it: %w", err)
	}
	if !all {
		c.warn("%s: its pages carry no checksum, so damage would go unseen; have it written with them (pyarrow: write_page_checksum=True)", s.path)
	}
	return nil
}

// parquetTable adds the rows of row groups.
type parquetTable struct {
	source *source
	c      *collector
	leaves []parquetLeaf // by leaf column of the file
	row    int64
	cells  cells
}

// bind finds the columns and what the table says of the trace.
func (t *parquetTable) bind(pf *parquet.File) error {
	var names []string
	for _, f := range pf.Schema().Fields() {
		names = append(names, f.Name())
	}
	ignored, err := checkColumns(names, t.source.opts)
	if err != nil {
		return err
	}
	for _, name := range ignored {
		t.c.warn("%s: column %s is not read", t.source.path, name)
	}
	var bound [numColumns]bool
	elements := leafElements(pf)
	for i, path := range pf.Schema().Columns() {
		leaf, err := bindLeaf(pf.Schema(), path, elements[i])
		if err != nil {
			return fmt.Errorf("column %s: %w", path[0], err)
		}
		if leaf.column >= 0 {
			if bound[leaf.column] {
				return fmt.Errorf("column %s: holds several values side by side (%s is one), expected one, or one list", path[0], strings.Join(path, "."))
			}
			bound[leaf.column] = true
		}
		t.leaves = append(t.leaves, leaf)
	}
	if text, ok := pf.Lookup(metaKey); ok {
		m, err := parseMeta(text)
		if err != nil {
			return err
		}
		t.c.state(t.source, m)
	}
	return nil
}

// group adds the rows of a row group.
func (t *parquetTable) group(group parquet.RowGroup) error {
	rows := group.Rows()
	defer rows.Close()
	var buf [16]parquet.Row
	for {
		n, err := rows.ReadRows(buf[:])
		for _, row := range buf[:n] {
			t.row++
			if err := t.readRow(row); err != nil {
				return t.source.errorAt(t.row, "%w", err)
			}
			t.cells.at = t.row
			if err := t.c.add(t.source, &t.cells.record); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.source.errorAt(t.row+1, "damaged: %w", err)
		}
	}
}
