// Package gate is the judge: it says whether head is slower than its base or breaks the SLO, from a stored run and a
// policy.
//
// It is pure. The same run and policy give the same bytes: it reads no clock, file, network or random source, so an old
// run can be judged again. It imports gate/stat for arithmetic and runner/record for the facts, never runner or baseline.
// What it finds is data ([Judgement]); how that looks is gate/report's affair.
package gate
