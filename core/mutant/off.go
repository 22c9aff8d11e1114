//go:build !mutants

package mutant

import "errors"

// Built says whether this program has the variants.
const Built = false

// On says whether variant m was chosen.
func On(ID) bool { return false }

// Choose fails: there is nothing to choose from.
func Choose(string) error { return errors.New("built without the tag mutants") }

// Name is empty here.
func (m ID) Name() string { return "" }
