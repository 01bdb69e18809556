package trace

// fileRow is the Parquet schema of format v1, in column order. An optional column
// that a trace does not have is all null and takes next to no space, so that every file
// that is written here has the same schema; those of others may lack it.
type fileRow struct {
	RequestID     string    `parquet:"request_id,dict"`
	LayerID       int32     `parquet:"layer_id,dict"`
	Head          *int32    `parquet:"head,optional,dict"`
	PromptLen     int32     `parquet:"prompt_len,dict"`
	Step          int32     `parquet:"step,delta"`
	SeqLen        int32     `parquet:"seq_len,delta"`
	TopKIndices   []int32   `parquet:"topk_indices,list" parquet-element:",delta"`
	Scores        []float32 `parquet:"scores,optional,list" parquet-element:",split,zstd"`
	CoveredMass   *float32  `parquet:"covered_mass,optional"`
	AttentionMass []float32 `parquet:"attention_mass,optional,list" parquet-element:",split,zstd"`
	Predicted     []int32   `parquet:"predicted_indices,optional,list" parquet-element:",delta"`
	PromptMass    []float32 `parquet:"prompt_mass,optional,list" parquet-element:",split,zstd"`
}

// Column numbers, in file order.
const (
	colRequestID = iota
	colLayerID
	colHead
	colPromptLen
	colStep
	colSeqLen
	colIndices
	colScores
	colCoveredMass
	colAttentionMass
	colPredicted
	colPromptMass
	numColumns
)

var columnNames = [numColumns]string{
	"request_id", "layer_id", "head", "prompt_len", "step", "seq_len",
	"topk_indices", "scores", "covered_mass", "attention_mass", "predicted_indices", "prompt_mass",
}

// Keys of the file's key-value metadata.
const (
	keyMeta   = "kvreplay"
	keyDigest = "kvreplay.digest"
	keySeal   = "kvreplay.seal"
)
