// Package report is the scribe: it renders a judged run as Markdown, as terminal text and as JSON, in one order.
//
// It decides nothing: verdicts, bounds and findings are the judge's, and a value that is missing is printed as missing.
// It writes to an io.Writer and reads no clock, file or environment; the same run, judgement and options give the same
// bytes. It may import gate and runner/record only.
//
// A report is a list of blocks made of spans. A span says whether its text is ours or foreign: what a server, a pull
// request or a runner said passes one cleaning function per surface (see clean.go) and cannot become markup, a mention, a
// link or a terminal command.
package report
