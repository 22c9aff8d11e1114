// Package kafka serves the Kafka protocol: request headers, the table of API
// keys, and one file per key that decodes, routes to the owner shards, gathers
// and encodes. It knows connections and loops only through Conn and Loop, and
// partitions only through package shard's requests.
//
// Everything of a Worker, and every handler and continuation, runs on the one
// event loop that the Worker was made for; nothing here blocks or locks. What
// loops share (Server) is immutable or atomic. It promises no durability of its
// own: a handler replies when the shards have answered. Read table.go first,
// then Worker.Serve in request.go, then one handler (apiversions.go is the
// shortest).
package kafka
