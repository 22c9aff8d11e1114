package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
	"millrace/shard"
)

// describeWindow is how many partitions one request asks its shards for at a
// time, so that a large request does not fill their inboxes.
const describeWindow = 256

// serveDescribeLogDirs tells the sizes of partitions (KIP-113) and of the disk
// (KIP-827). There is one data directory. Partitions that do not exist are left
// out.
func serveDescribeLogDirs(r *Request) {
	req := r.Body.(*kmsg.DescribeLogDirsRequest)
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = r.Options().DataDir
	if free, total := r.Options().DiskSpace(); total > 0 {
		dir.TotalBytes, dir.UsableBytes = total, free
	}
	var asked []described
	for topic, parts := range wantedPartitions(r.Image(), req) {
		for _, p := range parts {
			asked = append(asked, described{topic: topic, num: p.Num, q: &shard.Describe{Partition: p.ID}})
		}
	}
	r.describeAll(asked, func() {
		for _, d := range asked {
			if d.q.Err != nil {
				continue
			}
			if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != d.topic {
				t := kmsg.NewDescribeLogDirsResponseDirTopic()
				t.Topic = d.topic
				dir.Topics = append(dir.Topics, t)
			}
			p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			p.Partition, p.Size = d.num, d.q.SizeBytes
			t := &dir.Topics[len(dir.Topics)-1]
			t.Partitions = append(t.Partitions, p)
		}
		resp.Dirs = append(resp.Dirs, dir)
		r.Reply(resp)
	})
}

// wantedPartitions yields the partitions that a request asks for, topic by
// topic; a null list of topics asks for all.
func wantedPartitions(im *meta.Image, req *kmsg.DescribeLogDirsRequest) func(yield func(string, []*meta.Partition) bool) {
	return func(yield func(string, []*meta.Partition) bool) {
		if req.Topics == nil {
			for _, t := range im.Topics() {
				if !yield(t.Name, t.Partitions) {
					return
				}
			}
			return
		}
		asked := make(map[string][]int32, len(req.Topics)) // a topic may be named twice
		for _, t := range req.Topics {
			asked[t.Topic] = append(asked[t.Topic], t.Partitions...)
		}
		for _, t := range req.Topics {
			var parts []*meta.Partition
			nums := asked[t.Topic]
			delete(asked, t.Topic)
			slices.Sort(nums)
			for _, n := range slices.Compact(nums) {
				if p := im.Partition(t.Topic, n); p != nil {
					parts = append(parts, p)
				}
			}
			if !yield(t.Topic, parts) {
				return
			}
		}
	}
}

// described is one partition of a request with its place in the answer.
type described struct {
	topic string
	num   int32
	q     *shard.Describe
}

// describeAll submits all of asked, describeWindow at a time.
func (r *Request) describeAll(asked []described, done func()) {
	if len(asked) == 0 {
		done()
		return
	}
	n := min(len(asked), describeWindow)
	one := Gather(n, func() { r.describeAll(asked[n:], done) })
	for _, d := range asked[:n] {
		r.Submit(d.q.Partition, d.q, one)
	}
}
