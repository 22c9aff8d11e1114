// Package check judges recorded histories of clients against what the broker
// promises: nothing acknowledged is lost, nothing is invented, offsets are
// consistent, the high watermark and committed offsets never go back, the
// catalogue of topics survives, damage is reported and never served.
//
// The simulator (chaos/sim) and the chaos tool for real processes
// (chaos/cluster) record a History and call All. The checkers are pure
// functions, block on nothing and promise nothing about durability; only
// Recorder may be used from several goroutines at a time. The names of the
// violations are Jepsen's where Jepsen has one. Read History first.
package check
