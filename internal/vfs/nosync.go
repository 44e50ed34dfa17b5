package vfs

import "io/fs"

// NoSync is FS without its syncs, for tests that open many stores and never
// lose power.
type NoSync struct{ FS }

// Open implements FS.
func (n NoSync) Open(name string) (File, error) { return noSync(n.FS.Open(name)) }

// OpenFile implements FS.
func (n NoSync) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return noSync(n.FS.OpenFile(name, flag, perm))
}

// SyncDir implements FS by doing nothing.
func (NoSync) SyncDir(string) error { return nil }

func noSync(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

type noSyncFile struct{ File }

func (noSyncFile) Sync() error { return nil }
