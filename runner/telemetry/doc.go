// Package telemetry watches the machine while a run measures it, and reduces what it saw to one [record.State] per round.
//
// Two sources feed one stream of readings: a sensor, which is a child process that prints JSON lines (the GPU), and the
// host, read from procfs once a second. The sensor is foreign code on top of a driver: it may hang, lie, flood or die, and
// none of that may reach the measurement. So nothing here blocks on it, every line is bounded and checked, and a sensor
// that cannot be trusted is killed and its values become n/a with a reason. Absent is never 0.
//
// The package starts processes, reads /proc and /sys and writes one log; it judges nothing. Which readings make a round
// void is decided by package gate from the State alone.
package telemetry
