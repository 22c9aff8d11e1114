package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"millrace/bench/peers"
)

// scrape reads the broker's metrics. The values of a name are added up over the
// shards; other labels stay part of the name, as in `name{api="Fetch"}`.
func scrape(ctx context.Context, b peers.Broker) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.AdminAddr()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET /metrics: %s", resp.Status)
	}
	m := map[string]float64{}
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		name, value, ok := strings.Cut(in.Text(), " ")
		if !ok || name == "#" {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a label with a space in it: none that is asked for here
		}
		m[withoutShard(name)] += v
	}
	return m, in.Err()
}

func withoutShard(name string) string {
	base, labels, ok := strings.Cut(strings.TrimSuffix(name, "}"), "{")
	if !ok {
		return name
	}
	var kept []string
	for _, l := range strings.Split(labels, ",") {
		if !strings.HasPrefix(l, "shard=") {
			kept = append(kept, l)
		}
	}
	if len(kept) == 0 {
		return base
	}
	return base + "{" + strings.Join(kept, ",") + "}"
}

// grown is the difference of two scrapes.
func grown(before, after map[string]float64, name string) (float64, error) {
	v, ok := after[name]
	if !ok {
		return 0, fmt.Errorf("the broker has no metric %s", name)
	}
	return v - before[name], nil
}
