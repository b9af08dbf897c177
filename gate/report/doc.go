// Package report is the scribe: it renders a judged run as Markdown, terminal text and JSON. It writes to an io.Writer,
// reads no clock, file or environment, and decides nothing. It may import gate and runner/record only.
package report
