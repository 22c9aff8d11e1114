package core

import "testing"

// The hashes are what Java's String.hashCode gives.
func TestGroupPartitionIsKafkas(t *testing.T) {
	for _, c := range []struct {
		group string
		hash  int32
	}{
		{"", 0},
		{"a", 97},
		{"test-group", 627841412},
		{"console-consumer-12345", 158455506},
		{"é", 233},
		{"😀", 1772899},
		{"polygenelubricants", -1 << 31},
	} {
		for _, n := range []int32{1, 7, 50} {
			want := c.hash
			if want == -1<<31 {
				want = 0
			}
			want = max(want, -want) % n
			if got := GroupPartition(c.group, int(n)); got != want {
				t.Errorf("GroupPartition(%q, %d) = %d, want %d", c.group, n, got, want)
			}
		}
	}
}
