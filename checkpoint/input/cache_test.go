package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func mounted(t *testing.T, m *memory, machine machine) Brought {
	t.Helper()
	got, err := machine.Mount(t.Context(), m, machine.root, ".")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range m.files {
		machine.has(t, name, data)
	}
	return got
}

func TestWhatOneMachineFetchedTheNextDoesNot(t *testing.T) {
	t.Parallel()
	for _, links := range []bool{true, false} {
		m := &memory{files: map[string][]byte{"a": content(1, partSize+1), "b/c": content(2, 77)}}
		dir := t.TempDir()
		cached := func(c *CacheConfig) { c.Links = links }
		first := mounted(t, m, newMachine(t, withCache(t, dir, cached)))
		fetched := m.bytes
		second := newMachine(t, withCache(t, dir, cached))
		got := mounted(t, m, second)
		if first.Cached != 0 || got.Cached != got.Bytes || m.bytes != fetched {
			t.Errorf("links %v: the first brought %+v, the second %+v", links, first, got)
		}
	}
}

func TestADamagedEntryIsFoundDroppedAndFetchedAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"a flipped bit": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte{0xff, 0, 0xff}, partSize+100)
			return err
		},
		"cut short":   func(path string) error { return os.Truncate(path, 5) },
		"removed":     os.Remove,
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &memory{files: map[string][]byte{"a": content(1, partSize+1000)}}
			dir := t.TempDir()
			copies := func(c *CacheConfig) { c.Links = false }
			mounted(t, m, newMachine(t, withCache(t, dir, copies)))
			blob := blobsIn(t, dir)[0]
			if err := damage(blob); err != nil {
				t.Fatal(err)
			}
			before := m.bytes
			mounted(t, m, newMachine(t, withCache(t, dir, copies)))
			if m.bytes == before {
				t.Error("it was not fetched again")
			}
			if name == "a directory" {
				return // the cache goes without it
			}
			before = m.bytes
			if got := mounted(t, m, newMachine(t, withCache(t, dir, copies))); m.bytes != before || got.Cached == 0 {
				t.Error("it was not kept again")
			}
		})
	}
}

func TestNoTenantSeesAnothers(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"a": content(1, 10)}}
	dir := t.TempDir()
	mounted(t, m, newMachine(t, withCache(t, dir, nil)))
	got := mounted(t, m, newMachine(t, withCache(t, dir, func(c *CacheConfig) { c.Tenant = "beta" })))
	if got.Cached != 0 || m.opens != 2 {
		t.Errorf("another tenant was given %d bytes of the cache", got.Cached)
	}
	for _, bad := range []string{"", "..", "a/b", ".x"} {
		if _, err := OpenCache(CacheConfig{Dir: dir, Tenant: bad, Now: time.Now}); err == nil {
			t.Errorf("a tenant %q has a cache", bad)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "acme", "blobs")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("blobs: %v, %v", info.Mode(), err)
	}
}

func TestMachinesAtOnceFetchEachFileOnce(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{}}
	for i := range 12 {
		m.files[fmt.Sprintf("f%d", i)] = content(uint64(i), 100_000)
	}
	m.files["large"] = content(99, partSize+3)
	dir := t.TempDir()
	var machines []machine
	for range 5 {
		bend := withCache(t, dir, nil)
		machines = append(machines, newMachine(t, func(c *Config) { bend(c); c.Patience = time.Minute }))
	}
	var wg sync.WaitGroup
	for _, machine := range machines {
		wg.Go(func() {
			if _, err := machine.Mount(t.Context(), m, machine.root, "."); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, machine := range machines {
		for name, data := range m.files {
			machine.has(t, name, data)
		}
	}
	if m.opens != 12+2 {
		t.Errorf("%d requests for 14 parts", m.opens)
	}
}

func TestAMachineThatGetsNowhereIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"a": content(1, 100)}}
	dir := t.TempDir()
	hung := newMachine(t, withCache(t, dir, nil))
	list, _ := m.List(t.Context())
	s, err := openStage(t.Context(), filepath.Join(hung.cache.dir, "partial"), list[0])
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	mounted(t, m, newMachine(t, withCache(t, dir, nil)))
}

func TestWhatADeadMachineLeftIsGoneOnWith(t *testing.T) {
	t.Parallel()
	m := &memory{files: map[string][]byte{"a": content(1, 4*partSize)}}
	dir := t.TempDir()
	bend := withCache(t, dir, nil)
	dead := newMachine(t, func(c *Config) { bend(c); c.Workers = 1 })
	m.fault = func(_ string, off int64) error {
		if off == 2*partSize {
			return errors.New("the machine dies")
		}
		return nil
	}
	if _, err := dead.Mount(t.Context(), m, dead.root, "."); err == nil {
		t.Fatal("it went well")
	}
	m.fault, m.bytes = nil, 0
	mounted(t, m, newMachine(t, withCache(t, dir, nil)))
	if m.bytes != 2*partSize {
		t.Errorf("%d bytes were fetched of the %d that were missing", m.bytes, 2*partSize)
	}
}

func TestTheCacheIsBoundedAndThrowsOutWhatWasUsedLeastRecently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().Add(-time.Hour)
	bounded := func(c *CacheConfig) { c.Limit, c.Links, c.Now = 2500, false, func() time.Time { return now } }
	use := func(name string, seed uint64) Brought {
		now = now.Add(time.Minute)
		return mounted(t, &memory{files: map[string][]byte{name: content(seed, 1000)}}, newMachine(t, withCache(t, dir, bounded)))
	}
	use("a", 1)
	use("b", 2)
	if use("a", 1).Cached == 0 {
		t.Error("a was not kept")
	}
	use("c", 3) // b goes
	for name, want := range map[string]int64{"a": 1000, "c": 1000} {
		if got := use(name, map[string]uint64{"a": 1, "c": 3}[name]); got.Cached != want {
			t.Errorf("of %s %d bytes were kept", name, got.Cached)
		}
	}
	if use("b", 2).Cached != 0 {
		t.Error("b was kept")
	}
	if blobs := blobsIn(t, dir); len(blobs) != 2 {
		t.Errorf("%d blobs, want 2", len(blobs))
	}
	large := &memory{files: map[string][]byte{"large": content(9, 3000)}}
	mounted(t, large, newMachine(t, withCache(t, dir, bounded)))
	if blobs := blobsIn(t, dir); len(blobs) != 2 {
		t.Errorf("something larger than the cache threw out the rest: %d blobs", len(blobs))
	}
}

func TestWhatAMachineHasIsNotThrownOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	probe := newMachine(t, withCache(t, dir, nil))
	mounted(t, &memory{files: map[string][]byte{"a": content(1, 1000)}}, probe)
	if info, err := os.Lstat(blobsIn(t, dir)[0]); err != nil || !linked(info) {
		t.Skip("this file system clones; what is in use is the machine's own there")
	}
	bounded := func(c *CacheConfig) { c.Limit = 1500 }
	mounted(t, &memory{files: map[string][]byte{"b": content(2, 1000)}}, newMachine(t, withCache(t, dir, bounded)))
	if got := blobsIn(t, dir); len(got) != 1 {
		t.Errorf("%d blobs", len(got))
	}
	probe.has(t, "a", content(1, 1000))
	if err := probe.root.Remove("a"); err != nil {
		t.Fatal(err)
	}
	mounted(t, &memory{files: map[string][]byte{"b": content(2, 1000)}}, newMachine(t, withCache(t, dir, bounded)))
	if got := blobsIn(t, dir); len(got) != 1 || filepath.Base(got[0]) == filepath.Base(blobOf(t, 1)) {
		t.Errorf("blobs %v", got)
	}
}

func blobOf(t *testing.T, seed uint64) string {
	t.Helper()
	dir := t.TempDir()
	mounted(t, &memory{files: map[string][]byte{"a": content(seed, 1000)}}, newMachine(t, withCache(t, dir, nil)))
	return blobsIn(t, dir)[0]
}

func TestADiskThatIsNearlyFullMeansNoCache(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &memory{files: map[string][]byte{"a": content(1, 1000)}}
	mounted(t, m, newMachine(t, withCache(t, dir, func(c *CacheConfig) { c.Spare = 1 << 60 })))
	if got := blobsIn(t, dir); len(got) != 0 {
		t.Errorf("blobs %v", got)
	}
}

func TestACacheThatVanishesMeansNoCache(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &memory{files: map[string][]byte{"a": content(1, 1000), "b": content(2, 1000)}}
	machine := newMachine(t, withCache(t, dir, nil))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	mounted(t, m, machine)
	if _, err := OpenCache(CacheConfig{Dir: dir, Tenant: "acme", Now: time.Now}); err == nil {
		t.Error("a directory that is not on this machine was made")
	}
}

func TestAKeptDirectoryOutlivesTheJobAndGoesOnlyUnused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(tenant string) *Cache {
		c, err := OpenCache(CacheConfig{Dir: dir, Tenant: tenant, Now: time.Now, Spare: 1, Limit: 20_000})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	keep := func(c *Cache) string {
		path, err := c.Keep(".cache/huggingface")
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := open("acme")
	path := keep(first)
	if err := os.WriteFile(filepath.Join(path, "weights"), content(1, 15_000), 0o644); err != nil {
		t.Fatal(err)
	}
	if keep(open("beta")) == path {
		t.Fatal("another tenant has the same directory")
	}
	second := open("acme")
	if keep(second) != path {
		t.Error("the next job of the tenant has another directory")
	}
	first.Close()
	if err := open("acme").makeRoom(10_000); !errors.Is(err, errFull) {
		t.Errorf("with a job in it: %v", err)
	}
	second.Close()
	if err := open("acme").makeRoom(10_000); err != nil {
		t.Errorf("unused: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if got, err := os.ReadDir(keep(open("acme"))); err != nil || len(got) > 0 {
		t.Errorf("it comes back with %v, %v", got, err)
	}
}

func TestStalePartsGoFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	machine := newMachine(t, withCache(t, dir, func(c *CacheConfig) { c.Limit = 12_000 }))
	old := filepath.Join(machine.cache.dir, "partial", "old")
	if err := os.WriteFile(old, content(1, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &memory{files: map[string][]byte{"a": content(2, 8000)}}
	mounted(t, m, machine)
	if _, err := os.Stat(old); err != nil {
		t.Errorf("what may be under way was thrown out: %v", err)
	}
	long := time.Now().Add(-2 * stale)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	mounted(t, m, newMachine(t, withCache(t, dir, func(c *CacheConfig) { c.Limit = 12_000 })))
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what nobody goes on with is still there: %v", err)
	}
}
