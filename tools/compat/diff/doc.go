// Command diff sends the same generated requests to Apache Kafka 4.4 and to
// Millrace and compares the answers field by field.
//
//	go run ./tools/compat/diff --seeds 1000 --from 1
//
// A seed gives a sequence of requests (generate), valid, borderline and wrong,
// as data with placeholders for what only a broker knows. pair.playWith sends it
// to both and compares each answer after side.normalise has replaced what may
// differ: ids, times, texts, ports, the order of arrays. What differs and is not
// in knownDifferences, each entry of which names its reason in
// docs/COMPATIBILITY.md, is shrunk to the shortest sequence that shows it and
// printed; the command then ends with exit code 1. It does so too when an
// advertised pair of key and version was never sent, and reports entries of the
// list that nothing has shown.
//
// It starts both brokers itself (bench/peers) and runs workers, each with its own
// connections and names; nothing it writes outlives it. Read generate first, then
// pair.playWith.
package main
