package simtest

import (
	"fmt"
	"os"
	"time"

	"github.com/spotferry/spotferry/events/natsbus"
)

// bootBus starts the bus from its directory.
func (w *world) bootBus() {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: w.path("operator"), Entropy: w.chance.entropy("keys"), Now: time.Now})
	if err != nil {
		w.t.Fatal(err)
	}
	bus, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: w.path("bus"), Operator: op, Log: w.log.Named("server")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bus = bus
}

func (w *world) haltBus() {
	w.mu.Lock()
	bus := w.bus
	w.bus = nil
	w.mu.Unlock()
	bus.Shutdown()
}

// crashBus leaves the directory as it is at this moment, as a kill would: what the
// server still writes when it stops goes elsewhere.
func (w *world) crashBus() {
	image, grave := w.path("bus-image"), w.path(fmt.Sprint("bus-grave-", time.Now().UnixNano()))
	if err := os.CopyFS(image, os.DirFS(w.path("bus"))); err != nil {
		w.fail("the bus's directory cannot be copied: %v", err)
	}
	w.haltBus()
	for _, move := range [][2]string{{w.path("bus"), grave}, {image, w.path("bus")}} {
		if err := os.Rename(move[0], move[1]); err != nil {
			w.fail("the bus's directory cannot be replaced: %v", err)
		}
	}
	_ = os.RemoveAll(grave)
}

// busRestarts take the bus away and bring it back from the disk.
func (w *world) busRestarts() {
	for n := 0; sleep(w.ctx, w.chance.wait(w.opt.trouble.bus, "bus", n)); n++ {
		turn("bus")
		if !w.chaotic() {
			return
		}
		from := time.Now()
		if w.chance.hits(0.5, "bus dies", n) {
			w.hits.add("bus dies")
			w.trace("the bus dies")
			w.crashBus()
		} else {
			w.hits.add("bus restarts")
			w.trace("the bus stops")
			w.haltBus()
		}
		time.Sleep(w.chance.between(time.Second, 2*time.Minute, "bus away", n))
		turn("bus-back")
		w.bootBus()
		w.trace("the bus is back")
		w.outage(from)
		w.mu.Lock()
		w.forgot = append(w.forgot, time.Now())
		w.mu.Unlock()
	}
}

func (w *world) outage(from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outages = append(w.outages, window{from, time.Now()})
}
