package kernel

import "math"

// Estimator returns the times of kernels on one device. If the device was measured, it also
// corrects shapes near the measured ones by their errors.
type Estimator struct {
	Device     *Device
	Parameters Parameters
	near       [groupCount][]neighbour
}

// neighbour is the log error of the formulas at a measured shape.
type neighbour struct {
	at       [3]float64
	kind     Kind
	vector   float64
	logError float64
}

// A neighbour at a distance of reach octaves counts e^-½ of one at the same shape. shrink is the
// weight of no correction.
const (
	reach  = 0.6
	shrink = 0.5
)

// NewEstimator returns the estimator of a device. measured are its measurements, or nil.
func NewEstimator(d *Device, p Parameters, measured []Point) *Estimator {
	e := &Estimator{Device: d, Parameters: p}
	for i := range measured {
		k := &measured[i].Kernel
		g := groupOf(k.Kind)
		logError := math.Log(measured[i].Seconds / p.Seconds(d, k))
		e.near[g] = append(e.near[g], neighbour{place(k), k.Kind, k.Software.Vector, logError})
	}
	return e
}

// Learn returns an estimator with parameters that are fitted to the measurements of its device.
// The parameters of groups that were not measured stay those of other devices.
func Learn(d *Device, others Parameters, measured []Point) *Estimator {
	return NewEstimator(d, Fit(measured, others), measured)
}

// place returns the logs of a shape.
func place(k *Kernel) [3]float64 {
	return [3]float64{math.Log2(max(1, k.Tokens)), math.Log2(max(1, k.Out)), math.Log2(max(1, k.In))}
}

// Seconds returns the time of a kernel.
func (e *Estimator) Seconds(k Kernel) float64 {
	return e.Parameters.Seconds(e.Device, &k) * math.Exp(correction(e.near[groupOf(k.Kind)], &k))
}

// judged returns the time of a measured kernel by the formulas for its software. The correction is
// that of pricing, which asks for the software of today.
func (e *Estimator) judged(k Kernel) float64 {
	priced := k
	priced.Software = Current
	return e.Parameters.Seconds(e.Device, &k) * math.Exp(correction(e.near[groupOf(k.Kind)], &priced))
}

// Measured reports whether the kernels of a kind, or of its group, were measured on the device.
func (e *Estimator) Measured(k Kind) bool { return len(e.near[groupOf(k)]) > 0 }

// correction returns the mean log error of the neighbours of a shape, by distance. Neighbours of
// other software do not count if the formula of the kind depends on it.
func correction(near []neighbour, k *Kernel) float64 {
	at := place(k)
	sum, weight := 0., shrink
	for i := range near {
		n := &near[i]
		if n.kind != k.Kind || vectorised(k.Kind) && n.vector != k.Software.Vector {
			continue
		}
		square := 0.
		for j := range at {
			square += (at[j] - n.at[j]) * (at[j] - n.at[j])
		}
		if square < 9*reach*reach {
			w := math.Exp(-square / (2 * reach * reach))
			sum += w * n.logError
			weight += w
		}
	}
	return sum / weight
}

// Launch returns the time of a kernel without work, of attention or over rows.
func (e *Estimator) Launch(k Kind) float64 {
	switch k {
	case Prefill:
		return e.Parameters[prefillLaunch]
	case Decode:
		return e.Parameters[decodeLaunch]
	}
	return e.Parameters[rowLaunch]
}
