// Package records looks inside a record batch: for timestamp lookups, to name
// the record that makes a batch refused, and for the coordinators' own logs.
// The produce and fetch paths never come here.
//
// It is called from a shard's loop and its jobs, blocks on nothing, starts no goroutine and
// promises nothing about durability. Decompression is bounded by the caller.
// Read Each first.
package records
