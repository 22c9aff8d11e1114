// Quickstart makes a topic, sends ten records and reads them back as a member of
// a consumer group, with franz-go and nothing that is special to Millrace.
//
// It runs in one goroutine of its own and blocks on the network for a minute at
// most. Each record is acknowledged, so on stable storage, before the next step.
// Read main.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic   = "quickstart"
	records = 10
)

func main() {
	brokers := strings.Split(cmp.Or(os.Getenv("MILLRACE_BROKERS"), "127.0.0.1:9092"), ",")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, brokers); err != nil {
		log.Fatalf("quickstart with %s: %v", strings.Join(brokers, ","), err)
	}
}

func run(ctx context.Context, brokers []string) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumerGroup("quickstart"),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := createTopic(ctx, client); err != nil {
		return err
	}
	if err := produce(ctx, client); err != nil {
		return err
	}
	return consume(ctx, client)
}

func createTopic(ctx context.Context, client *kgo.Client) error {
	_, err := kadm.NewClient(client).CreateTopic(ctx, 3, 1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic: %w", err)
	}
	return nil
}

// produce sends the records with acks=all and idempotence, franz-go's defaults.
func produce(ctx context.Context, client *kgo.Client) error {
	for i := range records {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value %d", i)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	fmt.Printf("%d records acknowledged\n", records)
	return nil
}

// consume reads what the group has not read yet and commits each batch.
func consume(ctx context.Context, client *kgo.Client) error {
	for got := 0; got < records; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fmt.Printf("partition %d, offset %d: %s = %s\n", r.Partition, r.Offset, r.Key, r.Value)
			got++
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	fmt.Printf("%d records read by group quickstart\n", records)
	return nil
}
