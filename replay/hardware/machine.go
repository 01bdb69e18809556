package hardware

// machineFile is a machine as its file names the parts.
type machineFile struct {
	Header
	GPU    string       `yaml:"gpu"`
	GPUs   Fact[Number] `yaml:"gpus" most:"1e4"` // that share the host
	Link   string       `yaml:"link"`            // of each GPU
	Host   string       `yaml:"host"`
	Drive  string       `yaml:"drive"`
	Drives Fact[Number] `yaml:"drives" most:"1e4"` // striped
	// GPUDirect is what drives deliver straight into one GPU's memory; absent: through the host.
	GPUDirect Fact[BytesPerSecond] `yaml:"gpudirect" need:"no"`
}

func (m *machineFile) check(*faults) {} // Resolve has the parts

// Machine is a GPU with its link, host and drives: what --hardware names.
type Machine struct {
	Name      string
	Title     string
	GPU       *GPU
	GPUs      int // share the host
	Link      *Link
	Host      *Host
	Drive     *Drive
	Drives    int                  // striped
	GPUDirect Fact[BytesPerSecond] // from drives into one GPU's memory; not Known: through the host
}
