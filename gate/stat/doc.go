// Package stat is the mathematician: numbers in, estimates and warnings out.
//
// It knows no metric, arm name or verdict. Differences are natural logarithms of ratios and positive when head is worse;
// bounds are one-sided at the level a that the caller gives; a slot is a round's place in time. Everything here is a pure
// function of its arguments, without randomness, and safe for concurrent use. Too little data is no error: the answer is
// then infinitely wide, and says so.
//
// It imports the standard library and gonum only.
package stat
