package nats_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/nats"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/events/natsbus"
)

// TestDamage takes a chunk away, swaps two, and deletes what is being read.
func TestDamage(t *testing.T) {
	t.Parallel()
	nc := dial(t, bus(t))
	s := open(t, nc, nats.Config{})
	js, err := jetstream.New(nc)
	must(t, err)
	stream, err := js.Stream(t.Context(), "OBJ_"+nats.DefaultBucket)
	must(t, err)
	data := storetest.Content(2<<20 + 7)
	must(t, s.Put(t.Context(), "v1/a", bytes.NewReader(data), int64(len(data))))
	must(t, stream.DeleteMsg(t.Context(), 2)) // its second chunk
	if _, err := read(t.Context(), s, "v1/a"); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Get = %v, want ErrCorrupt", err)
	}
	r, err := s.Range(t.Context(), "v1/a", 2<<20, 7)
	must(t, err)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[2<<20:]) {
		t.Errorf("a range beside the damage = %d bytes, %v", len(got), err)
	}
	// Its two whole chunks in each other's place.
	must(t, s.Put(t.Context(), "v1/c", bytes.NewReader(data[:2<<20]), 2<<20))
	was, err := stream.GetLastMsgForSubject(t.Context(), "$O."+nats.DefaultBucket+".M."+base64.URLEncoding.EncodeToString([]byte("v1/c")))
	must(t, err)
	var info jetstream.ObjectInfo
	must(t, json.Unmarshal(was.Data, &info))
	for key, at := range info.Metadata {
		one, two, _ := strings.Cut(at, " ")
		info.Metadata[key] = two + " " + one
	}
	swapped, err := json.Marshal(info)
	must(t, err)
	must(t, stream.DeleteMsg(t.Context(), was.Sequence))
	_, err = js.Publish(t.Context(), was.Subject, swapped)
	must(t, err)
	if _, err := read(t.Context(), s, "v1/c"); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Get of swapped chunks = %v, want ErrCorrupt", err)
	}
	// Deleted while it is read: gone, and no proof of damage.
	must(t, s.Put(t.Context(), "v1/b", bytes.NewReader(data), int64(len(data))))
	b, err := s.Get(t.Context(), "v1/b")
	must(t, err)
	_, err = io.ReadFull(b, make([]byte, 10))
	must(t, err)
	must(t, s.Delete(t.Context(), "v1/b"))
	if _, err := io.ReadAll(b); !errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("reading on = %v, want ErrNotFound", err)
	}
}

// before does something once, right before a connection asks to purge.
type before struct {
	natsbus.InProcess
	once sync.Once
	do   func()
}

func (b *before) InProcessConn() (net.Conn, error) {
	c, err := b.InProcess.InProcessConn()
	return beforeConn{c, b}, err
}

type beforeConn struct {
	net.Conn
	b *before
}

func (c beforeConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("STREAM.PURGE")) {
		c.b.once.Do(c.b.do)
	}
	return c.Conn.Write(p)
}

// TestDeleteOfWhatCameAfter: a deletion takes what was there when it was asked
// for, and not what was put under the name since.
func TestDeleteOfWhatCameAfter(t *testing.T) {
	t.Parallel()
	e := bus(t)
	other := open(t, dial(t, e), nats.Config{})
	must(t, other.Put(t.Context(), "v1/a", strings.NewReader("first"), 5))
	s := open(t, dial(t, &before{InProcess: e, do: func() {
		must(t, other.Delete(t.Context(), "v1/a"))
		must(t, other.Put(t.Context(), "v1/a", strings.NewReader("second"), 6))
	}}), nats.Config{})
	must(t, s.Delete(t.Context(), "v1/a"))
	if got, err := read(t.Context(), other, "v1/a"); err != nil || string(got) != "second" {
		t.Errorf("got %q, %v; want what came after", got, err)
	}
}
