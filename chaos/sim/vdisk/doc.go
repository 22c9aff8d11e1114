// Package vdisk is a disk for simulations: a raftlog.FS in memory that keeps
// apart what is written and what is durable, and that can lose, tear, damage,
// refuse and delay on purpose.
//
// One goroutine uses a Disk and everything opened from it. Nothing blocks: the
// time that operations would take is added up for the scheduler to collect.
// Durable is what fdatasync and fsync of a directory made so, and nothing else:
// every other sector and directory entry is kept or lost by choice in Crash.
// Read Disk first, then Crash.
package vdisk
