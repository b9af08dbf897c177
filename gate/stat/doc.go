// Package stat is the mathematician: numbers in, estimates and warnings out. It imports the standard library and gonum only.
package stat
