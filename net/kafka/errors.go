package kafka

import (
	"errors"

	"millrace/core"
	"millrace/core/arena"
)

// Kafka's error codes, as far as handlers name them.
const (
	codeUnknownServerError        int16 = -1
	codeNone                      int16 = 0
	codeOffsetOutOfRange          int16 = 1
	codeCorruptMessage            int16 = 2
	codeUnknownTopicOrPartition   int16 = 3
	codeLeaderNotAvailable        int16 = 5
	codeNotLeaderOrFollower       int16 = 6
	codeRequestTimedOut           int16 = 7
	codeMessageTooLarge           int16 = 10
	codeCoordinatorLoading        int16 = 14
	codeCoordinatorNotAvailable   int16 = 15
	codeNotCoordinator            int16 = 16
	codeInvalidTopic              int16 = 17
	codeRecordListTooLarge        int16 = 18
	codeNotEnoughReplicas         int16 = 19
	codeInvalidRequiredAcks       int16 = 21
	codeTopicAuthorizationFailed  int16 = 29
	codeInvalidTimestamp          int16 = 32
	codeIllegalSASLState          int16 = 34
	codeUnsupportedVersion        int16 = 35
	codeTopicAlreadyExists        int16 = 36
	codeInvalidPartitions         int16 = 37
	codeInvalidReplicationFactor  int16 = 38
	codeInvalidConfig             int16 = 40
	codeNotController             int16 = 41
	codeInvalidRequest            int16 = 42
	codeUnsupportedForFormat      int16 = 43
	codePolicyViolation           int16 = 44
	codeOutOfOrderSequence        int16 = 45
	codeDuplicateSequence         int16 = 46
	codeInvalidProducerEpoch      int16 = 47
	codeTransactionalIDAuthFailed int16 = 53
	codeStorageError              int16 = 56
	codeUnknownProducerID         int16 = 59
	codeFetchSessionIDNotFound    int16 = 70
	codeInvalidFetchSessionEpoch  int16 = 71
	codeTopicDeletionDisabled     int16 = 73
	codeFencedLeaderEpoch         int16 = 74
	codeUnknownLeaderEpoch        int16 = 75
	codeUnsupportedCompression    int16 = 76
	codeInvalidRecord             int16 = 87
	codeProducerFenced            int16 = 90
	codeUnknownTopicID            int16 = 100
	codeInconsistentTopicID       int16 = 103
	codeFetchSessionTopicID       int16 = 106
	codeMismatchedEndpointType    int16 = 114
	codeUnsupportedEndpointType   int16 = 115
	codeRebootstrapRequired       int16 = 129
)

// errorCodes is the one mapping from sentinels to Kafka's error codes. Where an
// error is the broker's state and not the client's fault, the code is one that
// clients retry.
//
// Who asks a partition that has no leader gets what Kafka's brokers answer when
// they do not lead it, for Produce, Fetch, ListOffsets and the like: clients look
// the leader up again. Only metadata says LEADER_NOT_AVAILABLE. A log that is
// not served because it is damaged answers as one in Kafka's offline directories.
var errorCodes = []struct {
	err  error
	code int16
}{
	{core.ErrNotLeader, codeNotLeaderOrFollower},
	{core.ErrNoLeader, codeNotLeaderOrFollower},
	{core.ErrUnknownPartition, codeUnknownTopicOrPartition},
	{core.ErrUnknownTopicID, codeUnknownTopicID},
	{core.ErrOffsetOutOfRange, codeOffsetOutOfRange},
	{core.ErrFencedEpoch, codeFencedLeaderEpoch},
	{core.ErrUnknownEpoch, codeUnknownLeaderEpoch},
	{core.ErrCorruptBatch, codeCorruptMessage},
	{core.ErrInvalidRecord, codeInvalidRecord},
	{core.ErrUnsupportedMagic, codeInvalidRecord},
	{core.ErrInvalidTimestamp, codeInvalidTimestamp},
	{core.ErrBatchTooLarge, codeMessageTooLarge},
	{core.ErrOutOfOrderSeq, codeOutOfOrderSequence},
	{core.ErrDuplicateSeq, codeDuplicateSequence},
	{core.ErrFencedProducer, codeInvalidProducerEpoch},
	{core.ErrUnknownProducer, codeUnknownProducerID},
	{core.ErrStorageFull, codeStorageError},
	{core.ErrStorageFailed, codeStorageError},
	{core.ErrOverloaded, codeRequestTimedOut},
	{core.ErrNotEnoughReplicas, codeNotEnoughReplicas},
	{core.ErrTimedOut, codeRequestTimedOut},
	{core.ErrPolicyViolation, codePolicyViolation},
	{core.ErrShuttingDown, codeNotLeaderOrFollower},
	{core.ErrCoordinatorLoad, codeCoordinatorLoading},
	{core.ErrNotCoordinator, codeNotCoordinator},
	{arena.ErrFull, codeRequestTimedOut},
}

// ErrorCode maps an error that wraps a sentinel of core to Kafka's code;
// nil to 0, an unknown one to UNKNOWN_SERVER_ERROR.
func ErrorCode(err error) int16 {
	if err == nil {
		return codeNone
	}
	for i := range errorCodes {
		if errors.Is(err, errorCodes[i].err) {
			return errorCodes[i].code
		}
	}
	return codeUnknownServerError
}

// CoordinatorErrorCode is ErrorCode for the APIs of groups and transactions,
// whose clients look the coordinator up again.
func CoordinatorErrorCode(err error) int16 {
	if errors.Is(err, core.ErrNoLeader) {
		return codeCoordinatorNotAvailable
	}
	switch code := ErrorCode(err); code {
	case codeNotLeaderOrFollower:
		return codeNotCoordinator
	case codeUnknownTopicOrPartition, codeStorageError, codeRequestTimedOut:
		return codeCoordinatorNotAvailable
	default:
		return code
	}
}

// ControllerErrorCode is ErrorCode for changes that the controller decides. One
// that resigns has not decided on what was under way, whose record may be kept.
func ControllerErrorCode(err error) int16 {
	switch code := ErrorCode(err); code {
	case codeNotLeaderOrFollower, codeNotCoordinator:
		return codeNotController
	default:
		return code
	}
}
