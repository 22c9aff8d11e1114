package core

import "errors"

// Sentinel errors. Wrap them with what was refused and why; net/kafka holds the
// one mapping from these to Kafka's error codes.
var (
	ErrNotLeader         = errors.New("this node does not lead the partition")
	ErrNoLeader          = errors.New("the partition has no leader yet")
	ErrUnknownPartition  = errors.New("no such partition")
	ErrUnknownTopicID    = errors.New("no such topic id")
	ErrOffsetOutOfRange  = errors.New("offset out of range")
	ErrFencedEpoch       = errors.New("the leader epoch is older than the partition's")
	ErrUnknownEpoch      = errors.New("the leader epoch is newer than the partition's")
	ErrCorruptBatch      = errors.New("corrupt record batch")
	ErrInvalidRecord     = errors.New("invalid record batch")
	ErrUnsupportedMagic  = errors.New("unsupported record batch format")
	ErrInvalidTimestamp  = errors.New("timestamp outside the topic's limits")
	ErrBatchTooLarge     = errors.New("record batch larger than max.message.bytes")
	ErrOutOfOrderSeq     = errors.New("out of order sequence number")
	ErrDuplicateSeq      = errors.New("duplicate sequence number")
	ErrFencedProducer    = errors.New("producer epoch is older than the last one seen")
	ErrUnknownProducer   = errors.New("unknown producer id")
	ErrStorageFull       = errors.New("the disk is full")
	ErrStorageFailed     = errors.New("the storage of this partition is damaged or failed")
	ErrOverloaded        = errors.New("too many bytes in flight")
	ErrNotEnoughReplicas = errors.New("fewer replicas are in sync than min.insync.replicas asks for")
	ErrTimedOut          = errors.New("the request timed out")
	ErrPolicyViolation   = errors.New("not allowed by policy")
	ErrShuttingDown      = errors.New("the broker is shutting down")
	ErrCoordinatorLoad   = errors.New("the coordinator is loading its log")
	ErrNotCoordinator    = errors.New("this node is not the coordinator")
)
