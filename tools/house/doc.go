// Package house holds the tests that keep the rules of the code base true:
// which package may import which, that every package says what it is for, that
// files stay short and that the deterministic packages use no clock, chance or
// lock. It has no code of its own and nothing runs it but `go test`. Read
// TestImportsPointOneWay first.
package house
