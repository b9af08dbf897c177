package gate

// ExitCode is one row of the table of exit codes.
type ExitCode struct {
	Code int
	// Verdict is empty for codes that no verdict leads to.
	Verdict Verdict
	Meaning string
}

// Codes that the command exits with when nothing was judged.
const (
	ExitUsage       = 2
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// ExitCodes is the one table of what the command's exit code says; docs/exit-codes.md is generated from it.
func ExitCodes() []ExitCode {
	return []ExitCode{
		{0, Pass, "Every gated metric is shown to be within tolerance, and head does not break the SLO (release gate: the SLO is proven met)."},
		{1, Fail, "Head is worse than its tolerance allows, or breaks the SLO, or fails requests that base serves, or does not build or start."},
		{ExitUsage, "", "Usage or configuration error; nothing was measured."},
		{3, Inconclusive, "Measured properly, but it cannot be told; the report says what would settle it."},
		{4, Invalid, "Could not be measured or not be trusted: runner, GPU, base build, load generator, drift. Never blames the pull request."},
		{ExitInterrupted, "", "Cancelled (SIGINT); what was measured so far is on disk."},
		{ExitTerminated, "", "Terminated (SIGTERM or SIGHUP); what was measured so far is on disk."},
	}
}

// Exit is the exit code of a verdict. Nothing was to be judged under the empty verdict, which exits 0; an unknown one is
// not to be trusted.
func Exit(v Verdict) int {
	if v == "" {
		return 0
	}
	invalid := 0
	for _, row := range ExitCodes() {
		if row.Verdict == v {
			return row.Code
		}
		if row.Verdict == Invalid {
			invalid = row.Code
		}
	}
	return invalid
}
