package result

import "reflect"

// The tests of the package are outside it, because the rows that they share import it.
var (
	DecodeCanonical = decodeCanonical
	DecodeObject    = decodeObject
	Openings        = openings
	ParquetRow      = parquetRow
)

// Names is names.
func (i *Incomplete) Names() string { return i.names() }

// FromParquet returns the row of a value of ParquetRow.
func FromParquet(v reflect.Value) (r Row) {
	for i, f := range rowFields {
		f.value(&r).Set(v.Field(i))
	}
	return r
}
