// Package e2e holds the end-to-end tests: real processes, real git, a real inference server, the real action. It has no code
// of its own to import. The tests measure, so they run one after another and only where TAILGATE_E2E=1 says that the machine
// is theirs.
package e2e
