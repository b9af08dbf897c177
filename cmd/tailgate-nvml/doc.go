// Command tailgate-nvml is the GPU sensor of tailgate: it reads NVIDIA devices through NVML and prints JSON lines, version
// 1 of the sensor protocol, until its stdin closes.
//
// It is a program of its own because the driver library cannot be trusted with a measurement: a missing symbol ends the
// process, a lost device may hang a call for ever. Here both cost one sensor, which tailgate starts again. It is the only
// importer of go-nvml, and it never calls anything that sets state.
//
//	tailgate-nvml [--version] [--skip SYMBOL]...
//
// On stdin: "edge TOKEN" asks for counters and process lists at once, "rate MS" changes the interval (0 stops polling), end
// of file ends it. The environment gives TAILGATE_INTERVAL_MS and TAILGATE_DEVICES (UUIDs, comma separated; empty is all).
// It exits with 0 after "bye", with 3 when nothing can be measured, after a hello line that says why.
//
// It must be linked with lazy binding, for no driver has every symbol that go-nvml names:
//
//	CGO_ENABLED=1 go build -ldflags '-extldflags "-Wl,-z,lazy"' ./cmd/tailgate-nvml
//
// Without cgo it builds too, and says that it can measure nothing.
package main
