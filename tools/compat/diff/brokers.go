package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/peers"
)

// Settings that both brokers get, so that what is compared is not their
// configuration.
var sharedSettings = []string{
	"offsets.topic.num.partitions=5",
	"group.initial.rebalance.delay.ms=0",
	"max.incremental.fetch.session.cache.slots=200000",
	"log.retention.ms=-1", // when old records go is not compared
}

var kafkaSettings = append([]string{
	"log.retention.check.interval.ms=86400000",
	"log.cleaner.enable=false",
	"file.delete.delay.ms=1000",
	"queued.max.requests=500", "num.io.threads=4", "num.network.threads=2",
	"broker.session.timeout.ms=600000", // a machine with other work is no reason to be fenced
}, sharedSettings...)

var millraceSettings = append([]string{"disk.reserve.bytes=16777216", "log.level=warn"}, sharedSettings...)

// started are the two brokers of a run.
type started struct {
	kafka, millrace peers.Broker
	brokers         [2]broker
}

// startBrokers starts both, with their data and output in new folders of dir.
func startBrokers(ctx context.Context, dir string) (*started, error) {
	dir, err := os.MkdirTemp(dir, "diff-")
	if err != nil {
		return nil, err
	}
	var r started
	if r.kafka, err = peers.NewKafka(peers.KafkaOptions{Dir: filepath.Join(dir, "kafka"), HeapMB: 2048, Config: kafkaSettings}); err != nil {
		return nil, err
	}
	if r.millrace, err = peers.NewMillrace(peers.MillraceOptions{Dir: filepath.Join(dir, "millrace"), Config: millraceSettings}); err != nil {
		return nil, err
	}
	// Kafka lives for minutes here, in which its second compiler earns little.
	if err := os.Setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ConcGCThreads=1"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	for i, b := range []peers.Broker{r.kafka, r.millrace} {
		if _, err := b.Start(ctx); err != nil {
			return nil, errors.Join(err, r.stop())
		}
		if r.brokers[i], err = warmUp(ctx, b); err != nil {
			return nil, errors.Join(err, r.stop())
		}
	}
	r.brokers[0].lagging = true
	r.brokers[1].epochBase = 1 // terms of raft start at 1
	return &r, nil
}

// stop ends both brokers and removes their data; the output goes with it when
// all went well.
func (r *started) stop() error {
	var errs []error
	for _, b := range []peers.Broker{r.kafka, r.millrace} {
		if b == nil {
			continue
		}
		select {
		case <-b.Exited():
			errs = append(errs, fmt.Errorf("%s ended by itself; see %s", b.Name(), b.LogPath()))
			return errors.Join(errs...)
		default:
		}
		errs = append(errs, b.Kill())
	}
	if r.kafka != nil {
		errs = append(errs, os.RemoveAll(filepath.Dir(filepath.Dir(r.kafka.LogPath()))))
	}
	return errors.Join(errs...)
}

// warmUp waits until the broker coordinates groups and gives producer ids, and
// learns its cluster id.
func warmUp(ctx context.Context, b peers.Broker) (broker, error) {
	_, text, err := net.SplitHostPort(b.Addr())
	if err != nil {
		return broker{}, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return broker{}, err
	}
	info := broker{name: b.Name(), addr: b.Addr(), port: int32(port)}
	s := side{broker: info}
	s.reset(prefixToken)
	defer s.closeAll()
	for {
		err := s.ready(&info)
		if err == nil {
			return info, nil
		}
		select {
		case <-ctx.Done():
			return info, fmt.Errorf("%s is not ready: %w", b.Name(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *side) ready(info *broker) error {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	resp, err := s.ask(find, askLimit)
	if err != nil {
		return err
	}
	for _, c := range resp.(*kmsg.FindCoordinatorResponse).Coordinators {
		if c.ErrorCode != 0 {
			return fmt.Errorf("FindCoordinator: error %d", c.ErrorCode)
		}
	}
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version, groups.Groups = 5, find.CoordinatorKeys
	if resp, err = s.ask(groups, askLimit); err != nil {
		return err
	}
	for _, g := range resp.(*kmsg.DescribeGroupsResponse).Groups {
		if g.ErrorCode != 0 {
			return fmt.Errorf("DescribeGroups: error %d", g.ErrorCode)
		}
	}
	initID := kmsg.NewPtrInitProducerIDRequest()
	initID.Version, initID.ProducerID, initID.ProducerEpoch = 4, -1, -1
	if resp, err = s.ask(initID, askLimit); err != nil {
		return err
	}
	if code := resp.(*kmsg.InitProducerIDResponse).ErrorCode; code != 0 {
		return fmt.Errorf("InitProducerId: error %d", code)
	}
	cluster := kmsg.NewPtrDescribeClusterRequest()
	if resp, err = s.ask(cluster, askLimit); err != nil {
		return err
	}
	info.clusterID = resp.(*kmsg.DescribeClusterResponse).ClusterID
	return nil
}

// advertisedBy reads what a broker advertises.
func advertisedBy(b broker) (map[int16]versions, error) {
	s := side{broker: b}
	s.reset(prefixToken)
	defer s.closeAll()
	req := kmsg.NewPtrApiVersionsRequest()
	resp, err := s.ask(req, askLimit)
	if err != nil {
		return nil, err
	}
	all := make(map[int16]versions)
	for _, k := range resp.(*kmsg.ApiVersionsResponse).ApiKeys {
		all[k.ApiKey] = versions{k.MinVersion, k.MaxVersion}
	}
	return all, nil
}
