// Package hardware holds what the models of package transfer need to know of machines:
// GPUs, host links, drives, hosts and model shapes, as data files in which every
// number states its unit, its status (measured, datasheet, derived or assumed) and
// its public source. The files are bundled; a folder of the user's adds to them or
// replaces them, name by name. README.md describes the files.
//
// All values are SI in memory: bytes, seconds, bytes a second, FLOP a second.
package hardware
