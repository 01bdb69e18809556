package synthetic

const (
	debtSteps = 16 // the time in which a surplus of exchanged blocks is made up for
	mostDebt  = 4  // mean exchanges: a surplus or lack of more is ended at once
)

// balance says whether the blocks exchanged so far are as many as planned.
type balance int

const (
	tooFew balance = iota - 1
	even
	tooMany
)

// balanceOf judges a surplus, in mean exchanges.
func balanceOf(surplus float64) balance {
	switch {
	case surplus > mostDebt:
		return tooMany
	case surplus < -mostDebt:
		return tooFew
	}
	return even
}
