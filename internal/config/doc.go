// Package config reads .tailgate.yaml: the file in which a team says how its service is built, started, loaded and judged.
//
// Decoding is strict. An unknown key, a value of the wrong kind or out of range is an [*Error] with file, line and column
// that says what to write instead; nothing is guessed. Quantities carry their unit as people write them (10s, 5%, 40/s):
// a bare number where a unit is due is refused, since 5 and 0.05 are both plausible percentages.
//
// One set of structs is the source of the decoder, of the JSON Schema ([Schema]), of the manual's page ([Markdown]) and of
// the policy digest ([File.Digest]). The package imports nothing of ours and reads no file: the command hands it bytes and
// converts what comes back.
package config
