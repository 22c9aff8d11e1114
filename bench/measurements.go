package main

// measurements are in the order of the report.
var measurements = []*measurement{bandwidth, smallBatches, manyPartitions, consumers, startAndIdle, costs, idlePartitions}
