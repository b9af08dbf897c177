// Package baseline is the archivist: it makes the two builds that a session compares, and keeps what past runs found.
//
// Its rooms may use runner/record and internal/proc. It neither measures nor judges, so it never imports runner or gate.
package baseline
