package synthetic

// Reached draws streams of d as it stands and returns the mean overlap that comes out and
// the one that the dials ask for. They differ where other dials leave no room: README.md
// has the range. No ranks are drawn, and no more than a few streams, of short ones as many
// as it takes for the mean to be that of the dials rather than of chance.
func (d *Dials) Reached() (overlap, asked float64) {
	const indices, most, steps = 1 << 23, 8, 1 << 10
	rows := d.Windows + d.Steps
	if rows < 2 {
		return d.Overlap, d.Overlap
	}
	g, exchanged := NewSource(d), 0
	streams := max(1, min(max(most, steps/(rows-1)), indices/(rows*d.TopK)))
	for i := range streams {
		_, layer, head := d.place(i)
		l := d.spread(layer, head)
		asked += l.Overlap / float64(streams)
		g.draw(i)
		from := g.lead()
		exchanged += int(g.process.gone[from+rows] - g.process.gone[from+1])
	}
	return 1 - float64(exchanged)/float64(streams*(rows-1)*d.TopK), asked
}
