package proc

// Census is who was there at one instant. The zero value is nobody. It is immutable and safe for concurrent use.
type Census struct{ ids map[ID]bool }

// Census counts every process there is now, as far as the table shows them.
func (t Table) Census() (Census, error) {
	list, err := t.List(nil)
	if err != nil {
		return Census{}, err
	}
	c := Census{ids: make(map[ID]bool, len(list))}
	for _, p := range list {
		c.ids[p.ID] = true
	}
	return c, nil
}

// Has reports whether exactly this process was there, and not another one with its pid.
func (c Census) Has(id ID) bool { return c.ids[id] }
