// Package core holds the domain types and rules that need no I/O: offsets,
// record batches, errors, budgets and the types that cross package borders.
//
// It is called from every goroutine and blocks on nothing; its values are
// either immutable or owned by whoever holds them. It promises nothing about
// durability. Read Batch first.
package core
