package ess

import (
	"fmt"

	"github.com/kvreplay/kvreplay/replay/reproduce"
	"github.com/kvreplay/kvreplay/replay/transfer"
)

// blocks holds the rates of 656 B pieces (section 3.1).
func (s *study) blocks() ([]reproduce.Section, error) {
	link := transfer.NewLink(s.machine.Link)
	entry := int64(s.model.Entry.Value)
	section := reproduce.Section{Name: "small-blocks", Title: "Section 3.1: rates of blocks of 656 B",
		Method: fmt.Sprintf("The paths of link %s, on which the constants of the data file rest: many blocks one after the other, launches not counted. The GB/s are of the payload.", s.machine.Link.Name)}
	for _, c := range []struct {
		direction transfer.Direction
		path      transfer.Mechanism
		printed   float64
		name      string
	}{
		{transfer.HostToDevice, transfer.Call, 0.79, "cudaMemcpyAsync"}, {transfer.DeviceToHost, transfer.Call, 0.23, "cudaMemcpyAsync"},
		{transfer.HostToDevice, transfer.Kernel, 37, "FlashTrans"}, {transfer.DeviceToHost, transfer.Kernel, 43, "FlashTrans"},
	} {
		path, err := link.Path(c.direction, c.path)
		if err != nil {
			return nil, err
		}
		const many = 1 << 20
		cost := path.Cost(transfer.Request{Descriptors: many, Bytes: many * entry, Launches: 1})
		section.Lines = append(section.Lines, reproduce.Compare(reproduce.Fitted, fmt.Sprintf("%s, %s", c.name, c.direction), "GB/s", reproduce.Printed(c.printed),
			float64(cost.Bytes)/(cost.Seconds-cost.By.Launch)/1e9, reproduce.Gate{Relative: 0.005}))
	}
	return []reproduce.Section{section}, nil
}
