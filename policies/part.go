package policies

// Part is ⌊share × whole⌋ of the decimal that share was written as: 0.7 of 90 is 63, though
// the float next to 0.7 times 90 is 62.99…. It is exact where the decimal and whole have at
// most 15 digits together. share and whole are 0 or more.
func Part(share float64, whole int) int {
	n := int(share * float64(whole))
	if float64(n+1)/float64(whole) == share { // division rounds to the nearest, too
		n++
	}
	return n
}
