package listener

import (
	"context"
	"fmt"
	"time"

	"millrace/raftlog"
)

// journal is the part of *raftlog.Journal that loops use.
type journal interface {
	Submit(t *raftlog.Turn)
	Run(ctx context.Context, done func([]*raftlog.Turn))
}

// store is the part of *raftlog.Store that runs in the background.
type store interface {
	CheckSpace() raftlog.SpaceState
}

const (
	spaceEvery = time.Second
)

// startStorage runs the journal, which prepares its files by itself, and the
// check of free space, each on a goroutine of its own since both block.
func (srv *Server) startStorage() {
	ctx, cancel := context.WithCancel(context.Background())
	srv.cancel = cancel
	go func() {
		defer close(srv.journalDone)
		defer srv.guard()
		srv.journal.Run(ctx, srv.persisted)
	}()
	srv.background.Go(func() { defer srv.guard(); srv.watchSpace(ctx) })
	srv.background.Go(func() {
		defer srv.guard()
		if err := srv.pages.Run(ctx); err != nil {
			srv.opts.Logf("payload memory is no longer made ready ahead of its use: %v", err)
		}
	})
	for _, c := range srv.certs {
		srv.background.Go(func() { c.watch(ctx) })
	}
}

// stopStorage returns when what was submitted is written.
func (srv *Server) stopStorage() {
	srv.cancel()
	<-srv.journalDone
	srv.background.Wait()
}

// persisted hands completed turns to their loops; on the journal's goroutine.
func (srv *Server) persisted(turns []*raftlog.Turn) {
	for _, t := range turns {
		if t.Err != nil {
			srv.fail(fmt.Errorf("the journal cannot be written: %w", t.Err))
		}
		srv.loops[t.Shard].force(message{kind: msgPersisted, turn: t})
	}
}

// fail reports the first error that ends the trust in the device.
func (srv *Server) fail(err error) {
	select {
	case srv.failed <- err:
	default:
	}
}

// watchSpace lets the store look for free space; the store tells of changes.
func (srv *Server) watchSpace(ctx context.Context) {
	for ctx.Err() == nil {
		srv.store.CheckSpace()
		sleep(ctx, spaceEvery)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
