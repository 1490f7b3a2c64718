package natsbus

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"
)

func TestABusWhoseDiskWasFullWritesAgainOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	e, err := Start(EmbeddedConfig{Dir: filepath.Join(disk, "bus"), Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	healed := make(chan struct{})
	go func() { defer close(healed); e.Heal(ctx) }()
	t.Cleanup(func() { cancel(); <-healed; e.Shutdown() })
	nc, err := Connect(ConnConfig{URLFile: e.URLFile(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err == nil {
		err = Declare(ctx, js, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	publish := func() (uint64, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		ack, err := js.Publish(ctx, "sf.v1.money.test.fact", make([]byte, 700))
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	if n, err := publish(); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) || f.Close() != nil {
		t.Fatal(err)
	}
	taken := uint64(1)
	for taken < 100 { // the last page of a file may have room for some more
		n, err := publish()
		if err != nil {
			break
		}
		taken = n
	}
	if taken == 100 {
		t.Fatal("the disk is full and a hundred events were taken")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		n, err := publish()
		if err == nil {
			if n <= taken {
				t.Errorf("after the full disk an event has number %d: one that was acknowledged is lost", n)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("there is room again and nothing is taken: %v", err)
		}
	}
	s, err := js.Stream(ctx, StreamMoney)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= taken; n++ {
		if m, err := s.GetMsg(ctx, n); err != nil || len(m.Data) != 700 {
			t.Errorf("event %d, which was acknowledged: %v", n, err)
		}
	}
}
