package core

import "unicode/utf16"

// GroupPartition is the partition, of n of __consumer_offsets, that coordinates
// a group: the absolute value of Java's String.hashCode modulo n, as in Kafka.
func GroupPartition(groupID string, n int) int32 {
	var h int32
	for _, u := range utf16.Encode([]rune(groupID)) {
		h = 31*h + int32(u)
	}
	// Kafka's Utils.abs: MIN_VALUE counts as 0.
	if h == -1<<31 {
		h = 0
	} else if h < 0 {
		h = -h
	}
	return h % int32(max(n, 1))
}
