package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"millrace/core"
)

// identityName holds who the data directory belongs to. It is written last when
// a directory is made, so a directory without it is new.
const identityName = "millrace.meta"

const (
	identityMagic      = 0x415441444543524d // "MRCEDATA"
	clusterIDBytesMax  = 255
	identityFixedBytes = 40
)

// Errors of Open that a person must resolve.
var (
	ErrOtherVersion = errors.New("the data directory was written by another version")
	ErrOtherNode    = errors.New("the data directory belongs to another node or cluster")
	ErrNotEmpty     = errors.New("the data directory is incomplete")
)

// identity is the content of millrace.meta.
type identity struct {
	Node     core.NodeID
	Cluster  string
	Instance uint64 // of the journal; frames of any other are strangers
}

func (id identity) encode(block []byte) {
	clear(block)
	le := binary.LittleEndian
	le.PutUint64(block[0:], identityMagic)
	le.PutUint32(block[8:], formatVersion)
	le.PutUint32(block[12:], uint32(id.Node))
	le.PutUint64(block[16:], id.Instance)
	le.PutUint32(block[24:], uint32(len(id.Cluster)))
	copy(block[identityFixedBytes:], id.Cluster)
	le.PutUint64(block[32:], identitySum(block))
}

func identitySum(block []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	d.Write(block[:32])
	d.Write(block[identityFixedBytes:BlockBytes])
	return d.Sum64()
}

func decodeIdentity(block []byte) (id identity, err error) {
	le := binary.LittleEndian
	if len(block) < BlockBytes || le.Uint64(block) != identityMagic {
		return id, fmt.Errorf("%w: %s is not a file of ours", ErrOtherVersion, identityName)
	}
	if v := le.Uint32(block[8:]); v != formatVersion {
		return id, fmt.Errorf("%w: format %d, this program reads %d; use the version that wrote it", ErrOtherVersion, v, formatVersion)
	}
	n := le.Uint32(block[24:])
	if n > clusterIDBytesMax || le.Uint64(block[32:]) != identitySum(block) {
		return id, fmt.Errorf("%s is damaged: its checksum does not match", identityName)
	}
	return identity{
		Node:     core.NodeID(int32(le.Uint32(block[12:]))),
		Instance: le.Uint64(block[16:]),
		Cluster:  string(block[identityFixedBytes : identityFixedBytes+n]),
	}, nil
}

// loadIdentity reads millrace.meta; found is false in a new directory.
func loadIdentity(fs FS) (id identity, found bool, err error) {
	f, err := fs.Open(identityName)
	if errors.Is(err, ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, fmt.Errorf("opening %s: %w", identityName, err)
	}
	defer f.Close()
	block := AlignedBuf(BlockBytes)
	defer freeAligned(block)
	if err := readFull(f, block, 0); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return id, false, fmt.Errorf("%s is damaged: it is shorter than %d bytes", identityName, BlockBytes)
	} else if err != nil {
		return id, false, fmt.Errorf("reading %s: %w", identityName, err)
	}
	id, err = decodeIdentity(block)
	return id, err == nil, err
}

// saveIdentity makes millrace.meta durable, all or nothing.
func saveIdentity(fs FS, id identity) error {
	if len(id.Cluster) > clusterIDBytesMax {
		return fmt.Errorf("the cluster ID has %d bytes, at most %d are allowed", len(id.Cluster), clusterIDBytesMax)
	}
	const tmp = identityName + ".new"
	if err := fs.Remove(tmp); err != nil && !errors.Is(err, ErrNotExist) {
		return fmt.Errorf("removing %s: %w", tmp, err)
	}
	f, err := fs.Create(tmp)
	if err != nil {
		return fmt.Errorf("creating %s: %w", tmp, err)
	}
	block := AlignedBuf(BlockBytes)
	defer freeAligned(block)
	id.encode(block)
	_, err = f.WriteAt(block, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.Rename(tmp, identityName)
	}
	if err == nil {
		err = fs.SyncDir(".")
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", identityName, err)
	}
	return nil
}

// check compares the identity found with what this process was told.
func (id identity) check(o *Options) error {
	if o.NodeID != 0 && o.NodeID != id.Node {
		return fmt.Errorf("%w: it is node %d's, this is node %d", ErrOtherNode, id.Node, o.NodeID)
	}
	if o.ClusterID != "" && o.ClusterID != id.Cluster {
		return fmt.Errorf("%w: it is of cluster %q, this is %q", ErrOtherNode, id.Cluster, o.ClusterID)
	}
	return nil
}
