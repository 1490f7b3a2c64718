package s3_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

// slowed is a reader as the engine gives one: what is read of it counts as sent.
type slowed struct {
	*bytes.Reader
	read int64
}

func (s *slowed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.read += int64(n)
	return n, err
}

func (s *slowed) WriteTo(w io.Writer) (int64, error) {
	n, err := s.Reader.WriteTo(w)
	s.read += n
	return n, err
}

func TestASumIsNotTakenForSending(t *testing.T) {
	server := s3server.Start(t)
	store, err := s3.Open(s3.Config{Bucket: server.Bucket(t), Endpoint: server.URL, Access: server.Access, Secret: server.Secret})
	if err != nil {
		t.Fatal(err)
	}
	const size = 3 << 20
	r := &slowed{Reader: bytes.NewReader(make([]byte, size))}
	if err := store.Put(t.Context(), "v1/a", r, size); err != nil {
		t.Fatal(err)
	}
	if r.read != size {
		t.Errorf("%d bytes read to send %d over plain HTTP, where a sum goes ahead of them", r.read, size)
	}
}
