//go:build !invariants

package shard

// checkShard asserts nothing without the build tag: it walks all partitions.
func (s *Shard) checkShard() {}
