package main

import (
	"context"
	"time"

	"millrace/bench/peers"
)

func start(ctx context.Context, b peers.Broker) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return b.Start(ctx)
}
