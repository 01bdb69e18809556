package policies

// Part is ⌊share × whole⌋, of the number that share is the float next to: 0.7 of 90 is 63,
// though the product of the floats is less. share and whole are 0 or more.
func Part(share float64, whole int) int {
	n := int(share * float64(whole))
	if float64(n+1)/float64(whole) == share { // division rounds to the nearest, too
		n++
	}
	return n
}
