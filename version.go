// Package tailgate carries what belongs to the module as a whole: its version. It holds nothing else and touches nothing;
// the rooms of the house are the packages below.
package tailgate

import _ "embed"

// Version is the content of the VERSION file: a semantic version and a line feed.
//
//go:embed VERSION
var Version string
