// Package collective models the time of communication between GPUs. Tensor parallelism needs
// all-reduce, experts on several GPUs need exchanges, and stages of a pipeline send.
//
// An all-reduce has a formula of three constants: the time of the call, the time of a hop, and the
// share of the link that the rings reach. Fit finds them from measured all-reduces. A Network has
// the constants of a GPU and corrects all-reduces near measured ones. Times of exchanges and sends
// are derived from the same constants. Exchanges may also pass a network between hosts.
//
// The folder data has published measurements with their source and licence. README.md shows the
// errors on measurements that a fit leaves out. Times of exchanges only check the formula.
package collective
