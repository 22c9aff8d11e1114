package main

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// knownToGen are the keys that plainOther leaves alone, since there are generators
// that know more.
var knownToGen = []kmsg.Key{
	kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.Metadata, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.FindCoordinator,
	kmsg.JoinGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.SyncGroup, kmsg.DescribeGroups, kmsg.ListGroups, kmsg.SASLHandshake,
	kmsg.ApiVersions, kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.DeleteRecords, kmsg.InitProducerID, kmsg.OffsetForLeaderEpoch,
	kmsg.DescribeConfigs, kmsg.AlterConfigs, kmsg.DescribeLogDirs, kmsg.SASLAuthenticate, kmsg.CreatePartitions,
	kmsg.DeleteGroups, kmsg.IncrementalAlterConfigs, kmsg.OffsetDelete, kmsg.DescribeCluster, kmsg.DescribeProducers,
	kmsg.ListConfigResources, kmsg.DescribeTopicPartitions, kmsg.AlterClientQuotas, kmsg.DescribeClientQuotas,
	kmsg.AlterPartitionAssignments, kmsg.ListPartitionReassignments, kmsg.UnregisterBroker,
}

// plainOther sends one of the keys for which nothing better is here, with fields
// filled by their names.
func (g *gen) plainOther() {
	var keys []int16
	for k := range g.advertised {
		if !slices.Contains(knownToGen, kmsg.Key(k)) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	slices.Sort(keys)
	for range 2 {
		req := kmsg.RequestForKey(keys[g.r.IntN(len(keys))])
		g.fillPlainly(reflect.ValueOf(req).Elem(), "")
		g.add(req)
	}
}

func (g *gen) fillPlainly(v reflect.Value, field string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == tagsType {
			return
		}
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name != "Version" && name != "TimeoutMillis" {
				g.fillPlainly(v.Field(i), name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 || g.chance(12) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), mostly(g, 70, 1, 2, 0), 2))
		for i := range v.Len() {
			g.fillPlainly(v.Index(i), field)
		}
	case reflect.String:
		name, _ := g.topic()
		v.SetString(mostly(g, 60, name, g.text(field), "client-id", "user"))
	case reflect.Bool:
		v.SetBool(g.chance(30))
	default:
		if v.CanInt() && g.chance(60) {
			v.SetInt(oneOf[int64](g, 0, 1, 1, -1, 2))
		}
	}
}
