// Package chaos interrupts sessions at random instants and looks at what is left: by Ctrl-C, by SIGTERM, by kill -9, by a server
// that dies, by a disk that fills up. After each the next run must find nothing alive, nothing lost that was finished, and
// measure as if nothing had been.
//
// It runs the command from outside and knows it only by what it writes. It is no part of the command.
package chaos
