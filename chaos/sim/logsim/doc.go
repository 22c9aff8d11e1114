// Package logsim drives raftlog alone on a virtual disk against a model: random
// appends, truncations, hard states, log starts, flushes, evictions, creations
// and deletions; crashes between and within any of them; recovery; comparison.
//
// One goroutine runs a history; nothing blocks and nothing is durable but on the
// virtual disk. What a completed turn holds must be found again; what was
// submitted and not completed may be found, whole turns only and in their order;
// nothing else may. Read Run first.
package logsim
