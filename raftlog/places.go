package raftlog

import (
	"errors"
	"sort"

	"millrace/core"
)

// placesMax is how many batches one FindPlaces names.
const placesMax = 512

// BatchPlace says where a batch of the segments is in the raft log.
type BatchPlace struct {
	Index      core.Index
	BaseOffset core.Offset
	NextOffset core.Offset
}

// Places are batches in order. Entries of the range asked for that are not named,
// up to UpTo, hold no records.
type Places struct {
	Batches []BatchPlace
	UpTo    core.Index
}

// placesJob is the work of FindPlaces.
type placesJob struct {
	l    *Log
	g    segInfo
	from core.Index
	upTo core.Index // no batch of g is above it
}

// FindPlaces makes a Job that looks up which entries from index i on hold which
// batches, where only segments know it: Entry answers false. Its Places name at
// least one batch or move UpTo to i or above. Errors: ErrUnavailable.
func (l *Log) FindPlaces(i core.Index) (*Job, error) {
	if i < l.first || i > l.flushed || len(l.segs) == 0 {
		return nil, ErrUnavailable
	}
	k := max(0, sort.Search(len(l.segs), func(k int) bool { return l.segs[k].baseIndex > i })-1)
	w := &placesJob{l: l, g: l.segs[k], from: i, upTo: l.flushed}
	if w.g.id == l.flushedSeg.id {
		w.g = l.flushedSeg
	} else if k+1 < len(l.segs) {
		w.upTo = min(w.upTo, l.segs[k+1].baseIndex-1)
	}
	return &Job{Log: l, CatchUp: true, work: w}, nil
}

func (w *placesJob) run(j *Job) (err error) {
	ix, err := openIndex(w.l.set.store, w.l.id, &w.g)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ix.close()) }()
	n, err := ix.find(func(r indexRow) bool { return r.index >= w.from })
	if err != nil {
		return err
	}
	for ; n < ix.rows && len(j.Places.Batches) < placesMax; n++ {
		row, err := ix.row(n)
		if err != nil {
			return err
		}
		j.Places.Batches = append(j.Places.Batches, BatchPlace{row.index, row.baseOffset, row.nextOffset()})
		j.Places.UpTo = row.index
	}
	if n == ix.rows {
		j.Places.UpTo = w.upTo
	}
	return nil
}

func (w *placesJob) finish(*Job) {}
