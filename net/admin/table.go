package admin

// table lists every metric of the broker, in the order of /metrics. Labels are
// bounded: API names, error names, shard numbers and fixed words.
var table = []Metric{
	{Name: "millrace_build_info", Kind: Gauge, Labels: []string{"version", "go"}, Help: "1, labelled with the version."},
	{Name: "millrace_uptime_seconds", Kind: Gauge, Help: "Time since the start."},
	{Name: "millrace_ready", Kind: Gauge, Help: "1 when /readyz answers 200."},

	{Name: "millrace_request_duration_seconds", Kind: Histogram, Labels: []string{"api"}, Help: "Time from a request's arrival to its reply; long polls count with their wait."},
	{Name: "millrace_request_errors_total", Kind: Counter, Labels: []string{"api", "error"}, Help: "Error codes in answers, of requests and of their partitions, topics or groups."},
	{Name: "millrace_requests_malformed_total", Kind: Counter, Help: "Requests that could not be decoded; their connections were closed."},
	{Name: "millrace_requests_unsupported_total", Kind: Counter, Help: "Requests of keys or versions that are not served."},

	{Name: "millrace_connections", Kind: Gauge, Labels: []string{"shard"}, Help: "Open client connections."},
	{Name: "millrace_connections_opened_total", Kind: Counter, Labels: []string{"shard"}, Help: "Client connections accepted."},
	{Name: "millrace_connections_refused_total", Kind: Counter, Labels: []string{"reason"}, Help: "Client connections closed on arrival: by the setting that bounds them, or for a failed TLS handshake."},
	{Name: "millrace_received_bytes_total", Kind: Counter, Labels: []string{"shard"}, Help: "Bytes read from clients."},
	{Name: "millrace_sent_bytes_total", Kind: Counter, Labels: []string{"shard"}, Help: "Bytes written to clients."},
	{Name: "millrace_sends_blocked_total", Kind: Counter, Labels: []string{"shard"}, Help: "Replies that the kernel did not take at once."},
	{Name: "millrace_request_bytes", Kind: Gauge, Labels: []string{"shard"}, Help: "Bytes of requests being worked on."},
	{Name: "millrace_request_bytes_limit", Kind: Gauge, Labels: []string{"shard"}, Help: "Bound of millrace_request_bytes; beyond it sockets are not read."},
	{Name: "millrace_reads_paused_total", Kind: Counter, Labels: []string{"shard", "reason"}, Help: "Times that a socket was not read for lack of room, by what was lacking."},

	{Name: "millrace_shard_turns_total", Kind: Counter, Labels: []string{"shard"}, Help: "Turns of the shard's event loop."},
	{Name: "millrace_shard_journal_turns_total", Kind: Counter, Labels: []string{"shard"}, Help: "Turns that wrote to the journal."},
	{Name: "millrace_shard_partitions", Kind: Gauge, Labels: []string{"shard"}, Help: "Partitions with a replica on this shard."},
	{Name: "millrace_shard_leaders", Kind: Gauge, Labels: []string{"shard"}, Help: "Partitions that this shard leads."},
	{Name: "millrace_shard_appends_total", Kind: Counter, Labels: []string{"shard"}, Help: "Record batches appended."},
	{Name: "millrace_shard_appended_bytes_total", Kind: Counter, Labels: []string{"shard"}, Help: "Bytes of record batches appended."},
	{Name: "millrace_shard_refused_total", Kind: Counter, Labels: []string{"shard"}, Help: "Requests refused for lack of budget."},
	{Name: "millrace_shard_elections_won_total", Kind: Counter, Labels: []string{"shard"}, Help: "Elections that this shard's partitions won."},
	{Name: "millrace_shard_raft_warnings_total", Kind: Counter, Labels: []string{"shard"}, Help: "Warnings of the raft library."},
	{Name: "millrace_shard_peer_dropped_total", Kind: Counter, Labels: []string{"shard"}, Help: "Messages of other nodes that were not taken, and messages to them that were not sent."},
	{Name: "millrace_shard_inflight_bytes", Kind: Gauge, Labels: []string{"shard"}, Help: "Appended bytes that are not on stable storage yet."},
	{Name: "millrace_shard_inflight_bytes_limit", Kind: Gauge, Labels: []string{"shard"}, Help: "Bound of millrace_shard_inflight_bytes."},
	{Name: "millrace_shard_fetch_waiters", Kind: Gauge, Labels: []string{"shard"}, Help: "Fetches that wait for records."},
	{Name: "millrace_shard_reads_starved_total", Kind: Counter, Labels: []string{"shard"}, Help: "Reads of records that found no payload memory and had to wait."},
	{Name: "millrace_shard_reads_ahead_total", Kind: Counter, Labels: []string{"shard"}, Help: "Reads of history that were begun before a sequential consumer asked for it."},
	{Name: "millrace_shard_fetch_waiters_limit", Kind: Gauge, Labels: []string{"shard"}, Help: "Bound of millrace_shard_fetch_waiters."},

	{Name: "millrace_payload_memory_bytes", Kind: Gauge, Labels: []string{"shard", "state"}, Help: "Payload memory outside the Go heap: mapped, and of it live (some buffer refers to it)."},
	{Name: "millrace_payload_memory_bytes_limit", Kind: Gauge, Labels: []string{"shard"}, Help: "Bound of mapped payload memory."},
	{Name: "millrace_payload_memory_full_total", Kind: Counter, Labels: []string{"shard"}, Help: "Times that payload memory was used up and cached records were dropped."},

	{Name: "millrace_disk_free_bytes", Kind: Gauge, Help: "Free space of the data directory's file system."},
	{Name: "millrace_disk_total_bytes", Kind: Gauge, Help: "Size of the data directory's file system."},
	{Name: "millrace_disk_reserve_bytes", Kind: Gauge, Help: "Free space below which produce requests are refused (disk.reserve.bytes)."},
	{Name: "millrace_disk_low", Kind: Gauge, Help: "1 while produce requests are refused for lack of disk space."},
	{Name: "millrace_disk_direct_io", Kind: Gauge, Help: "1 where writes bypass the page cache; 0 where the file system does not allow it."},
	{Name: "millrace_disk_sync_duration_seconds", Kind: Histogram, Help: "Time of one fdatasync; the journal's and the segments'."},
	{Name: "millrace_disk_written_bytes_total", Kind: Counter, Help: "Bytes written to the data directory, the preparation of journal files included."},
	{Name: "millrace_disk_read_bytes_total", Kind: Counter, Help: "Bytes read from the data directory."},
	{Name: "millrace_disk_errors_total", Kind: Counter, Help: "Writes and syncs that failed."},
	{Name: "millrace_journal_files", Kind: Gauge, Labels: []string{"state"}, Help: "Journal files: used ones hold data that is not in segments yet, spare ones are pre-written."},
	{Name: "millrace_journal_files_limit", Kind: Gauge, Help: "Used journal files above which data is written to segments to free the oldest (journal.files.max)."},
	{Name: "millrace_journal_frames_total", Kind: Counter, Help: "Frames written to the journal; each is one write and one sync for all shards."},
	{Name: "millrace_journal_bytes_total", Kind: Counter, Help: "Bytes of journal frames."},

	{Name: "millrace_groups", Kind: Gauge, Labels: []string{"state"}, Help: "Consumer groups that this node coordinates, by state."},
	{Name: "millrace_group_members", Kind: Gauge, Help: "Members of the groups that this node coordinates."},
	{Name: "millrace_group_offsets", Kind: Gauge, Help: "Committed offsets that this node coordinates."},

	{Name: "millrace_topics", Kind: Gauge, Help: "Topics of the cluster."},
	{Name: "millrace_partitions", Kind: Gauge, Help: "Partitions of the cluster."},
	{Name: "millrace_brokers", Kind: Gauge, Help: "Registered brokers."},
	{Name: "millrace_metadata_version", Kind: Gauge, Help: "Version of the metadata that this node has applied."},
}
