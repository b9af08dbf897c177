//go:build !linux

package pace

// favour knows nothing to ask of this system.
func favour(int) (got string, undo func() bool) { return "as found", func() bool { return true } }
