package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/gob"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"
)

// kept is what the cache's file has, after a line that says what it is and the
// hash of the rest. It is worth nothing to anyone but this machine's processes
// for this job, and is ignored when it is not theirs.
type kept struct {
	Owner string
	Files []keptFile
	Sent  sent
}

type keptFile struct {
	Dev, Ino           uint64
	Size, Mtime, Ctime int64
	Hashes             []string
	Sizes              []int64
}

// openCache reads the cache's file, if there is one and it is ours. Anything
// that is wrong with it costs only time.
func openCache(cfg Config) *cache {
	c := &cache{files: map[inode]*read{}, rehash: cfg.Rehash}
	if cfg.CacheDir == "" {
		return c
	}
	machine, _ := os.ReadFile("/etc/machine-id")
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	c.path = filepath.Join(cfg.CacheDir, "read-"+cfg.Tenant+"-"+cfg.Job)
	c.owner = digest(bytes.Join([][]byte{machine, boot, []byte(cfg.Tenant), []byte(cfg.Job), []byte(cfg.Key.Name(nil))}, []byte{0}))
	data, err := os.ReadFile(c.path)
	if err == nil {
		err = c.decode(data)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		cfg.Log.Warn("what was read before is not known, reading it again", zap.String("file", c.path), zap.Error(err))
	}
	return c
}

var errForeign = errors.New("not this machine's, job's or version's, or damaged")

func (c *cache) decode(data []byte) error {
	if len(data) < hashLen || string(data[:hashLen]) != digest(data[hashLen:]) {
		return errForeign
	}
	var k kept
	if err := gob.NewDecoder(bytes.NewReader(data[hashLen:])).Decode(&k); err != nil {
		return err
	}
	if k.Owner != c.owner {
		return errForeign
	}
	for _, f := range k.Files {
		if len(f.Hashes) != len(f.Sizes) {
			return errForeign
		}
		r := &read{stamp: stamp{inode{f.Dev, f.Ino}, f.Size, f.Mtime, f.Ctime}}
		for i, hash := range f.Hashes {
			r.pieces = append(r.pieces, piece{hash, f.Sizes[i]})
		}
		c.files[r.stamp.inode] = r
	}
	c.sent = k.Sent
	return nil
}

// save writes the cache's file, whole or not at all. It need not survive a power
// failure: no entry would, since the owner's boot is part of its name.
func (c *cache) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.path == "" || !c.dirty {
		return nil
	}
	k := kept{Owner: c.owner, Sent: c.sent}
	for _, ino := range slices.SortedFunc(maps.Keys(c.files), func(a, b inode) int { return cmp.Or(cmp.Compare(a.Dev, b.Dev), cmp.Compare(a.Ino, b.Ino)) }) {
		r := c.files[ino]
		f := keptFile{Dev: ino.Dev, Ino: ino.Ino, Size: r.stamp.Size, Mtime: r.stamp.Mtime, Ctime: r.stamp.Ctime}
		for _, p := range r.pieces {
			f.Hashes, f.Sizes = append(f.Hashes, p.hash), append(f.Sizes, p.size)
		}
		k.Files = append(k.Files, f)
	}
	var b bytes.Buffer
	b.Write(make([]byte, hashLen))
	if err := gob.NewEncoder(&b).Encode(k); err != nil {
		return err
	}
	copy(b.Bytes(), digest(b.Bytes()[hashLen:]))
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	tmp := c.path + ".new"
	if err := os.WriteFile(tmp, b.Bytes(), 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, c.path); err != nil {
		return err
	}
	c.dirty = false
	return nil
}
