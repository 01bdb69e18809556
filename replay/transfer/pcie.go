package transfer

import "math"

// Bytes of packet headers with framing and link CRC, 64-bit addresses, no ECRC
// (Neugebauer et al., "Understanding PCIe performance for end host networking", SIGCOMM
// 2018, and its model, github.com/pcie-bench/pcie-model, model/pcie.py).
const (
	writeHeader      = 24 // MWr
	readHeader       = 24 // MRd
	completionHeader = 20 // CplD
)

// kernelAccess is what one read of a kernel asks for: a cache line of 128 B.
const kernelAccess = 128

// Packets says how payload is cut into packets. The zero value has no headers: a link
// whose packets are not modelled.
type Packets struct {
	Payload       float64 // bytes in one packet, at most
	Header        float64 // bytes around them
	Request       float64 // bytes that one read request asks for; 0: writes, nothing goes back
	RequestHeader float64
}

// DeviceReads are packets of a device that reads host memory (host to device): requests
// against the payload, completions with it.
func DeviceReads(maxPayload, maxRequest float64) Packets {
	return Packets{maxPayload, completionHeader, maxRequest, readHeader}
}

// DeviceWrites are packets of a device that writes host memory (device to host).
func DeviceWrites(maxPayload float64) Packets { return Packets{maxPayload, writeHeader, 0, 0} }

// Forward are the wire bytes of a contiguous piece in the direction of its payload.
func (p Packets) Forward(bytes float64) float64 {
	if p.Header == 0 {
		return bytes
	}
	return bytes + p.Header*math.Ceil(bytes/p.Payload)
}

// Back are the wire bytes against it.
func (p Packets) Back(bytes float64) float64 {
	if p.Request == 0 {
		return 0
	}
	return p.RequestHeader * math.Ceil(bytes/p.Request)
}

// efficiency is payload over wire bytes in full packets.
func (p Packets) efficiency() float64 {
	if p.Header == 0 {
		return 1
	}
	return p.Payload / (p.Payload + p.Header)
}

// transferRates are giga-transfers a second and lane by PCIe generation, encoding what
// of them is data: 8b/10b, 128b/130b, 242 of 256 bytes of a FLIT.
var (
	transferRates = [...]float64{1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
	encoding      = [...]float64{1: 8. / 10, 2: 8. / 10, 3: 128. / 130, 4: 128. / 130, 5: 128. / 130, 6: 242. / 256}
)

// WireRate is what a PCIe link carries each way, bytes a second, packets and their
// headers included. Generations are 1 to 6.
func WireRate(generation, lanes int) float64 {
	return transferRates[generation] * encoding[generation] * float64(lanes) / 8
}

// Ceiling is the payload rate that headers leave of a wire rate, in full packets.
func (p Packets) Ceiling(wireRate float64) float64 { return wireRate * p.efficiency() }
