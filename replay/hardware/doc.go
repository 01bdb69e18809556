// Package hardware holds data about machines for the models of package transfer: GPUs, host links,
// drives, hosts and model shapes. In the data files every number states its unit, its status
// (measured, datasheet, derived, fitted or assumed) and its public source. The files are bundled. A
// folder of the user can add files or replace them by name. README.md describes the files.
//
// All values in memory are SI: bytes, seconds, bytes per second, FLOP per second.
package hardware
