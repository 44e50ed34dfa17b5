package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// offsetStore keeps a push consumer's offsets: at the broker for a cluster
// group, in a file for broadcast. Methods may be called concurrently, but only
// one save per queue at a time.
type offsetStore interface {
	// load returns the offset to go on from; ErrOffsetNotFound if none is kept.
	load(ctx context.Context, q Queue) (int64, error)
	save(ctx context.Context, q Queue, offset int64) error
	// flush makes saves durable where save alone does not.
	flush() error
}

// brokerOffsets are kept by the broker under the group's name.
type brokerOffsets struct {
	client *Client
	group  string
}

func (s *brokerOffsets) load(ctx context.Context, q Queue) (int64, error) {
	return s.client.committedOffset(ctx, s.group, q, false)
}

func (s *brokerOffsets) save(ctx context.Context, q Queue, offset int64) error {
	err := s.client.commitOffset(ctx, s.group, q, offset)
	if errors.Is(err, ErrTopicNotFound) {
		return nil // deleted, and its offsets with it
	}
	return err
}

func (s *brokerOffsets) flush() error { return nil }

// fileOffsets are kept in a JSON file that is replaced as a whole:
//
//	{"group":"g","offsets":[{"topic":"t","broker":"b","queue":0,"offset":17}, …]}
//
// With path "" they live as long as the consumer.
type fileOffsets struct {
	path  string
	group string

	mu      sync.Mutex
	offsets map[Queue]int64
	dirty   bool
}

type offsetFile struct {
	Group   string       `json:"group"`
	Offsets []fileOffset `json:"offsets"`
}

type fileOffset struct {
	Topic  string `json:"topic"`
	Broker string `json:"broker"`
	Queue  int    `json:"queue"`
	Offset int64  `json:"offset"`
}

// openFileOffsets reads the file if it is there. A file that is damaged or
// belongs to another group is an error: starting somewhere else in silence
// would lose or repeat messages.
func openFileOffsets(path, group string) (*fileOffsets, error) {
	s := &fileOffsets{path: path, group: group, offsets: map[Queue]int64{}}
	if path == "" {
		return s, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var f offsetFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("offset file %s: %w", path, err)
	}
	if f.Group != group {
		return nil, fmt.Errorf("offset file %s belongs to group %q, not %q", path, f.Group, group)
	}
	for _, o := range f.Offsets {
		if o.Offset < 0 || o.Queue < 0 {
			return nil, fmt.Errorf("offset file %s: queue %d offset %d, must not be negative", path, o.Queue, o.Offset)
		}
		s.offsets[Queue{Topic: o.Topic, Broker: o.Broker, ID: o.Queue}] = o.Offset
	}
	return s, nil
}

func (s *fileOffsets) load(_ context.Context, q Queue) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.offsets[q]; ok {
		return o, nil
	}
	return 0, ErrOffsetNotFound
}

func (s *fileOffsets) save(_ context.Context, q Queue, offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.offsets[q]; !ok || o != offset {
		s.offsets[q] = offset
		s.dirty = true
	}
	return nil
}

func (s *fileOffsets) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty || s.path == "" {
		return nil
	}
	f := offsetFile{Group: s.group}
	for _, q := range sortedQueues(s.offsets) {
		f.Offsets = append(f.Offsets, fileOffset{q.Topic, q.Broker, q.ID, s.offsets[q]})
	}
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := replaceFile(s.path, append(b, '\n')); err != nil {
		return err
	}
	s.dirty = false
	return nil
}

// replaceFile writes a file so that a crash leaves the old or the new one:
// temporary file, sync, rename, sync of the directory.
func replaceFile(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
