package policies

// Part returns ⌊share × whole⌋ for the decimal that share was written as. 0.7 of 90 is 63, although
// the float64 product is 62.99…. It is exact if the decimal and whole have at most 15 digits
// together. share and whole must not be negative.
func Part(share float64, whole int) int {
	n := int(share * float64(whole))
	if float64(n+1)/float64(whole) == share { // division rounds to the nearest, too
		n++
	}
	return n
}
