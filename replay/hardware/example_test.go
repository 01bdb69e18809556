package hardware_test

import (
	"fmt"
	"log"

	"github.com/kvreplay/kvreplay/replay/hardware"
)

// Look up a machine and a model among the bundled files. A folder can add to them.
func ExampleLoad() {
	lib, err := hardware.Load("")
	if err != nil {
		log.Fatal(err)
	}
	machine, err := lib.Machine("h100")
	if err != nil {
		log.Fatal(err)
	}
	model, err := lib.Model("smollm2-135m")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %.0f GB of memory, on %s\n", machine.Name, float64(machine.GPU.Memory.Value)/1e9, machine.Link.Name)
	fmt.Printf("%s: %g layers, %g B of KV a token and layer\n", model.Name, float64(model.Layers.Value), float64(model.Entry.Value))
	// Output:
	// h100: 86 GB of memory, on pcie5-x16
	// smollm2-135m: 30 layers, 768 B of KV a token and layer
}
