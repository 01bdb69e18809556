package result

import "reflect"

// The tests of the package are outside it, because the rows that they share import it.
var (
	CheckByRow    = checkSettings
	DecodeObject  = decodeObject
	Openings      = openings
	ParquetRow    = parquetRow
	SettingsEqual = (*Setting).equal
)

// DecodeCanonical reads the last of some lines after the others.
func DecodeCanonical(lines ...[]byte) (row Row, ok bool) {
	c := canonicalLines{texts: texts{}}
	for _, line := range lines {
		ok = c.decode(line)
	}
	return c.row, ok
}

// Names is names.
func (i *Incomplete) Names() string { return i.names() }

// Change gives a field of a row another value.
func Change(r *Row, name string) {
	f := &rowFields[fieldIndex[name]]
	switch {
	case !f.scalar():
		r.Warnings = append(r.Warnings, "changed")
	case f.element().Kind() == reflect.Bool:
		f.value(r).SetBool(!f.value(r).Bool())
	case f.parsePresent(r, "7") != nil:
		panic(name)
	}
}

// FromParquet returns the row of a value of ParquetRow.
func FromParquet(v reflect.Value) (r Row) {
	for i, f := range rowFields {
		f.value(&r).Set(v.Field(i))
	}
	return r
}
