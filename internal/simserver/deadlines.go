package simserver

// deadlines is a heap of sequences by key, and by order of arrival among equals. See container/heap.
type deadlines []*sequence

// Len implements heap.Interface.
func (d deadlines) Len() int { return len(d) }

// Less implements heap.Interface.
func (d deadlines) Less(i, j int) bool {
	if d[i].key != d[j].key {
		return d[i].key < d[j].key
	}
	return d[i].order < d[j].order
}

// Swap implements heap.Interface.
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	s, _ := x.(*sequence)
	s.index = len(*d)
	*d = append(*d, s)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	old := *d
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return s
}
