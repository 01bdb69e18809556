package result

import "reflect"

// The tests of the package are outside it, as the rows that they share import it.
var (
	DecodeCanonical = decodeCanonical
	DecodeObject    = decodeObject
	Openings        = openings
	ParquetRow      = parquetRow
)

// Names is names.
func (i *Incomplete) Names() string { return i.names() }

// FromParquet is the row that a value of ParquetRow has.
func FromParquet(v reflect.Value) (r Row) {
	for i, f := range rowFields {
		f.value(&r).Set(v.Field(i))
	}
	return r
}
