// Package kernel models the time of single GPU kernels: matrix products, kernels that go over rows
// (norms, rotary embedding, activation, residual sum), sampling, and attention.
//
// A Kernel is a shape. A Device has the rates of a GPU's file. Parameters are a few physical
// constants: launch times, shares of the rates, and the cost of tiles and waves. Fit finds them by
// robust least squares of log times. Judge fits without a device, a model or a shape, and returns
// the errors on the part that was left out.
//
// Measurements are rows of one CSV format. The folder data has published ones, with their sources
// and licences. README.md shows the errors and describes the format.
package kernel
