package mem

import (
	"bytes"
	"maps"
	"slices"
)

// Names returns every object's name, sorted, without faults.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Edit replaces an object's bytes by what change makes of a copy of them, as a
// failing medium would: a flipped bit, a lost tail. nil removes the object. It
// panics if there is no such object.
func (s *Store) Edit(name string, change func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.objects[name]
	if !ok {
		panic("mem store: no object " + name)
	}
	s.used -= int64(len(data))
	if data = change(bytes.Clone(data)); data == nil {
		delete(s.objects, name)
	} else {
		s.objects[name] = data
		s.used += int64(len(data))
	}
}

// Clone returns a store with the same objects and faults of its own: the world
// as it would be, had everybody died at this moment.
func (s *Store) Clone(cfg Config) *Store {
	c := New(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(c.objects, s.objects) // bytes are never changed in place
	c.used = s.used
	return c
}
