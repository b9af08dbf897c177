// Package pace releases requests when they are due, and says by its own readings how late each one was.
//
// Due times are absolute and fixed before the round, so one late wake-up never shifts the rest. Nothing is skipped,
// merged or slowed down: a request whose time has passed goes out at once, in order. The package touches a clock and a
// thread; it knows neither sockets nor what a request is.
package pace
