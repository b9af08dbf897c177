// Package scripttest is for tests: it reads the stream scripts of runner/client/testdata, plays them to one connection, and
// holds what a client reported against what the script says it must report. The format is described in that folder's
// README. Nothing but tests imports it.
package scripttest
