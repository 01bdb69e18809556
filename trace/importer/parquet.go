package importer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/kvreplay/kvreplay/trace"
)

// decodeParquet reads a table of any writer, row by row.
func decodeParquet(s *source, c *collector) error {
	file, size, err := s.randomAccess()
	if err != nil {
		return err
	}
	pf, err := parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("damaged or cut off (a Parquet file ends in its directory): %w", err)
	}
	if err := checkIntegrity(s, c, pf, file); err != nil {
		return err
	}
	t := &parquetTable{source: s, c: c}
	if err := t.bind(pf); err != nil {
		return err
	}
	for _, group := range pf.RowGroups() {
		if err := t.group(group); err != nil {
			return err
		}
	}
	return nil
}

// checkIntegrity verifies a sealed trace, and warns where nothing would show damage.
func checkIntegrity(s *source, c *collector, pf *parquet.File, file io.ReaderAt) error {
	if _, sealed := pf.Lookup(metaKey + ".digest"); sealed && !s.found.Gzip {
		f, err := trace.Open(s.path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Verify()
	}
	all, err := haveChecksums(pf, file)
	if err != nil {
		return fmt.Errorf("damaged: %w", err)
	}
	if !all {
		c.warn("%s: its pages carry no checksum, so damage would go unseen; have it written with them (pyarrow: write_page_checksum=True)", s.path)
	}
	return nil
}

// haveChecksums reports whether the first page of every column chunk has a CRC.
func haveChecksums(pf *parquet.File, file io.ReaderAt) (bool, error) {
	var protocol thrift.CompactProtocol
	for _, g := range pf.Metadata().RowGroups {
		for i := range g.Columns {
			m := &g.Columns[i].MetaData
			at := m.DataPageOffset
			if m.DictionaryPageOffset > 0 {
				at = min(at, m.DictionaryPageOffset)
			}
			var head format.PageHeader
			section := bufio.NewReaderSize(io.NewSectionReader(file, at, m.TotalCompressedSize), 512)
			if err := thrift.NewDecoder(protocol.NewReader(section)).Decode(&head); err != nil {
				return false, fmt.Errorf("page header at byte %d: %w", at, err)
			}
			if head.CRC == 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// parquetTable adds the rows of row groups.
type parquetTable struct {
	source *source
	c      *collector
	leaves []parquetLeaf // by leaf column of the file
	row    int64
	cells  cells
}

// parquetLeaf is what a leaf column of the file is to us.
type parquetLeaf struct {
	column  int // of columnNames, -1: not read
	list    bool
	present int // definition level from which the list is there, maybe empty
	element int // definition level of an element that may be null
	maxDef  int
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
	for _, path := range pf.Schema().Columns() {
		leaf, err := bindLeaf(pf.Schema(), path)
		if err != nil {
			return fmt.Errorf("column %s: %w", path[0], err)
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

func bindLeaf(schema *parquet.Schema, path []string) (parquetLeaf, error) {
	leaf := parquetLeaf{column: -1}
	for i, name := range columnNames {
		if name == path[0] {
			leaf.column = i
		}
	}
	found, _ := schema.Lookup(path...)
	leaf.maxDef, leaf.list = found.MaxDefinitionLevel, leaf.column >= colIndices && leaf.column <= colPredicted
	if leaf.column < 0 {
		return leaf, nil
	}
	if want := map[bool]int{true: 1}[leaf.list]; found.MaxRepetitionLevel != want {
		return leaf, fmt.Errorf("is nested %d deep, expected %d", found.MaxRepetitionLevel, want)
	}
	for _, f := range schema.Fields() {
		if f.Name() == path[0] && f.Optional() {
			leaf.present = 1
		}
	}
	leaf.element = leaf.present + 1
	return leaf, checkKind(leaf.column, found.Node.Type().Kind())
}

// checkKind reports a physical type that cannot hold the column.
func checkKind(column int, kind parquet.Kind) error {
	ok := kind == parquet.Int32 || kind == parquet.Int64
	switch column {
	case colRequest:
		ok = kind == parquet.ByteArray
	case colScores, colAttention, colCovered:
		ok = kind == parquet.Float || kind == parquet.Double
	case colHead, colLayer, colPrompt, colStep, colSeqLen:
		ok = ok || kind == parquet.Double
	}
	if !ok {
		return fmt.Errorf("has the type %v, which does not fit", kind)
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

// readRow fills the cells from the values of a row.
func (t *parquetTable) readRow(row parquet.Row) error {
	c := &t.cells
	c.reset()
	for _, v := range row {
		leaf := &t.leaves[v.Column()]
		if leaf.column < 0 {
			continue
		}
		if err := c.setParquet(leaf, v); err != nil {
			return fmt.Errorf("column %s: %w", columnNames[leaf.column], err)
		}
	}
	return c.finish(t.source.opts)
}

// setParquet sets a cell, or appends one value to a list.
func (c *cells) setParquet(leaf *parquetLeaf, v parquet.Value) error {
	if v.IsNull() {
		if leaf.list && v.DefinitionLevel() >= leaf.element {
			return errors.New("a value of the list is null, expected a number")
		}
		if leaf.column == colPredicted && v.DefinitionLevel() >= leaf.present {
			c.predicted = []int32{} // present and empty
		}
		return nil
	}
	switch leaf.column {
	case colRequest:
		c.id, c.hasID = string(v.ByteArray()), true
		return nil
	case colScores:
		c.scores = append(c.scores, float32(parquetFloat(v)))
		return nil
	case colAttention:
		c.attention = append(c.attention, float32(parquetFloat(v)))
		return nil
	case colCovered:
		f := float32(parquetFloat(v))
		c.covered = &f
		return nil
	}
	return c.setParquetInt(leaf, v)
}

func (c *cells) setParquetInt(leaf *parquetLeaf, v parquet.Value) (err error) {
	x := int64(0)
	switch v.Kind() {
	case parquet.Int32:
		x = int64(v.Int32())
	case parquet.Int64:
		x = v.Int64()
	default:
		if math.IsNaN(v.Double()) { // what pandas makes of null
			return nil
		}
		if x, err = wholeNumber(v.Double()); err != nil {
			return err
		}
	}
	switch {
	case leaf.list && (x < math.MinInt32 || x > math.MaxInt32):
		return fmt.Errorf("a value of the list is %d, expected one that int32 holds", x)
	case leaf.column == colIndices:
		c.indices = append(c.indices, int32(x))
	case leaf.column == colPredicted:
		c.predicted = append(c.predicted, int32(x))
	default:
		c.ints[leaf.column], c.has[leaf.column] = x, true
	}
	return nil
}

func parquetFloat(v parquet.Value) float64 {
	if v.Kind() == parquet.Float {
		return float64(v.Float())
	}
	return v.Double()
}
