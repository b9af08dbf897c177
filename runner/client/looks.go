package client

// signs are what shows an answer of a dialect.
type signs struct {
	// says describes them to people.
	says string
	// lines: the answer is newline-delimited.
	lines bool
	// within names the list whose first item is looked at, empty for the event itself. The item has all of all and one of any.
	within   string
	all, any []string
}
