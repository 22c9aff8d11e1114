// Package config is the one table of settings: of the broker and of topics,
// with types, defaults, bounds and documentation. Files, environment, flags,
// Kafka's config requests and docs/CONFIG.md all read the same table.
//
// It is called from every goroutine and blocks on nothing: it parses what it is
// given and reads no file and no environment itself. A Config is immutable once
// made. Nothing here is durable; dynamic settings live in the controller's log.
// Read Setting, then Load.
package config
