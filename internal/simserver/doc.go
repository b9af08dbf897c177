// Package simserver is a simulated inference server with known truth. It speaks the OpenAI-compatible API over real
// sockets, answers with the timing of a declared model, and can be told to be slow, cold, drifting, stalling or broken.
// Tests, the demo and the gate's check of itself measure it, because here the right answer is known.
//
// The room has four walls:
//
//   - engine, tempo, prefixCache: the model, in virtual time. Pure: no clock, no goroutine, no socket. Deadlines follow
//     from arrivals alone, so the lateness of this process is never added to the model.
//   - driver: the only sleeper. It waits for the engine's next deadline, an absolute instant, and tells the streams what
//     is due.
//   - server and its handlers: HTTP, one goroutine per connection, one write per event.
//   - truth: what really happened, in CLOCK_MONOTONIC nanoseconds read just before each write.
//
// It imports the standard library and golang.org/x/sys/unix (timers) only, and nothing of ours. It touches the network
// address it is given, the truth log and the start counter where the configuration names them, and no environment: a
// lookup function is handed in.
package simserver
