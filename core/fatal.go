package core

import "strings"

// fatalPrefix begins the text of a panic for which the broker is not to blame: the
// storage or the machine failed it.
const fatalPrefix = "FATAL: "

// FatalText tells the panics apart, by what recover gave: of a FATAL one it is
// what failed, for a person to read. Every other panic is a fault in the program
// (BUG) and is to go on with its trace.
func FatalText(recovered any) (what string, fatal bool) {
	text, ok := recovered.(string)
	if !ok {
		return "", false
	}
	return strings.CutPrefix(text, fatalPrefix)
}
