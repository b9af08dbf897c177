// Package pace releases requests when they are due, and says by its own readings how late each one was.
//
// Due times are absolute and fixed before the round, so one late wake-up never shifts the rest. Nothing is skipped,
// merged or slowed down: a request whose time has passed goes out at once, in order. The package touches a clock and a
// thread; it knows neither sockets nor what a request is.
//
// Being on time on a machine that is busy, with the very load the pacer makes, takes four things, each measured by
// BenchmarkLag: an absolute sleep in the kernel (clock_nanosleep with TIMER_ABSTIME), a thread that the kernel wakes before
// others, a free place among GOMAXPROCS for it ([Claim] says why), and a spin that is as short as the machine's wake-ups
// allow ([Thread.Wait]): at 5,000 requests a second a spin of 200 µs is a whole processor, taken from the server.
package pace
