package core

// Record is one key-value record of a coordinator's log. A nil Value is a
// tombstone.
type Record struct {
	Key, Value []byte
}

// ClientInfo says who sent a request.
type ClientInfo struct {
	ClientID   string
	Host       string // as Kafka prints it: "/127.0.0.1"
	Principal  string // "User:ANONYMOUS" where nobody has authenticated
	Listener   string
	APIKey     int16
	APIVersion int16
}

// Command is a request to a coordinator's state machine. Body is a kmsg request
// (or a type of the coordinator's own), and the machine sets Reply to the
// matching response before it lists the Command in Output.Replies or a Write.
//
// A Command that waits (JoinGroup, SyncGroup) is kept by the machine and listed
// in a later Output, exactly once.
type Command struct {
	Client ClientInfo
	Body   any
	Reply  any
	// Owner is the shard's own: which request the Command came with.
	Owner any
	// Err is set by the shard instead of Reply when the machine could not be
	// asked or its records could not be appended (ErrNotLeader,
	// ErrStorageFull, ...).
	Err error
}

// Write is one atomic group of records with the replies that depend on it.
type Write struct {
	Records []Record
	// Replies leave when Records, and everything appended before them, are
	// committed. With no Records they wait for what was appended before.
	Replies []*Command
	// Cookie is handed back by StateMachine.Failed when the records could not
	// be appended, nor are those of the Writes behind it in the Output then; it is the
	// machine's own.
	Cookie any
}

// Output is filled by a state machine during one call.
type Output struct {
	Writes []Write
	// Replies leave at once: answers that may be wrong about what is not committed
	// yet, but must not wait for a slow disk (heartbeats).
	Replies []*Command
	// Image, when not nil, replaces the cluster image (controller only). The
	// shard publishes it once everything appended before it, the Writes of this
	// Output included, is committed; if one of those could not be appended the
	// Image is dropped.
	Image any
	// TrimBelow asks for the log start to move up to this offset: all records
	// below it are superseded by later ones. Zero asks for nothing.
	TrimBelow Offset
}

// Reset empties o for the next call and keeps its memory.
func (o *Output) Reset() {
	clear(o.Writes)
	clear(o.Replies)
	o.Writes, o.Replies, o.Image, o.TrimBelow = o.Writes[:0], o.Replies[:0], nil, 0
}
