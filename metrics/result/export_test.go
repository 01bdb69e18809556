package result

// The tests of the package are outside it, as the rows that they share import it.
var (
	DecodeCanonical  = decodeCanonical
	DecodeObject     = decodeObject
	Openings         = openings
	ParquetRow       = parquetRow
	IdentitySettings = identitySettings
	PlaceSettings    = placeSettings
	TraceSettings    = traceSettings
)

// Names is names.
func (i *Incomplete) Names() string { return i.names() }
