//go:build unix && !linux

package raftlog

func adviseHuge([]byte) {}
