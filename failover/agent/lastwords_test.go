package agent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
	"github.com/spotferry/spotferry/failover/agent/agenttest"
)

func TestWhatAShortJobWroteIsThereBeforeItsEndIs(t *testing.T) {
	echo := func(r *agenttest.Running) agent.Exit { fmt.Fprint(r.Stdout, "x marks the spot"); return agent.Exit{} }
	for _, tc := range []struct {
		name string
		do   func(w *world)
		told func(w *world) bool // the end, or what stands for it
		said string
	}{
		{"it ends by itself", func(*world) {}, func(w *world) bool { return len(w.gw.Record().Dones) > 0 }, "x marks the spot"},
		{"it is stopped by order, under notice", func(w *world) {
			w.until("it trains", func() bool { return w.trainer.Last() > 0 })
			w.seller.Warn(20 * time.Second)
			w.sleep(time.Second)
			w.gw.Order(events.OrderStop, "stop-1")
		}, func(w *world) bool { return len(w.gw.Record().Dones) > 0 }, "step 2"},
		{"it stands still", func(*world) {}, func(w *world) bool { return len(w.gw.Record().Troubles) > 0 }, "step 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				w.cfg.LogEvery = time.Hour
				j.Spec.Policy.ProgressTimeoutS = 60
				w.trainer.HangAt = 3
				w.machine.Programs["run.sh"] = echo
				if tc.said != "x marks the spot" {
					w.machine.Programs["run.sh"] = w.trainer.Run
				}
				w.start()
				w.gw.Order(events.OrderStart, "start-1")
				tc.do(w)
				w.until("the end is told", func() bool { return tc.told(w) })
				if !w.said(tc.said) {
					t.Errorf("of its output only %+v arrived before", w.gw.Record().Lines)
				}
			})
		})
	}
}

func TestAnEndIsToldAlthoughItsOutputCannotBe(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.machine.Programs["run.sh"] = func(r *agenttest.Running) agent.Exit { fmt.Fprintln(r.Stdout, "x"); return agent.Exit{} }
		w.gw.Lose(events.VerbLog, 1000)
		w.boot()
		w.sleep(10 * time.Second)
		w.equal("ends", len(w.gw.Record().Dones), 1)
	})
}

func TestAMachineWithFewerGPUsThanAskedForTrainsNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		asked  []events.Accelerator
		shows  int
		shared bool
		faulty bool
	}{
		{"one of two", []events.Accelerator{{Model: "H100", Count: 2}}, 1, false, true},
		{"none of one", []events.Accelerator{{Model: "H100", Count: 1}}, 0, false, true},
		{"as many as the lesser choice asks for", []events.Accelerator{{Model: "H100", Count: 4}, {Model: "B200", Count: 2}}, 2, false, false},
		{"more", []events.Accelerator{{Model: "H100", Count: 1}}, 2, false, false},
		{"none asked for", nil, 0, false, false},
		{"a part of a machine", []events.Accelerator{{Model: "H100", Count: 2}}, 1, true, false},
		{"nothing is known", []events.Accelerator{{Model: "H100", Count: 2}}, -1, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world, j *events.JoinReply) {
				j.Spec.Resources.Accelerators = tc.asked
				w.cfg.NvidiaSMI, w.cfg.SharedGPUs = "/usr/bin/nvidia-smi", tc.shared
				w.machine.Programs["nvidia-smi"] = func(r *agenttest.Running) agent.Exit {
					time.Sleep(2 * time.Second)
					switch {
					case tc.shows < 0:
						return agent.Exit{Code: 9}
					case tc.shows == 0:
						fmt.Fprintln(r.Stdout, "No devices were found")
						return agent.Exit{Code: 6}
					}
					for i := range tc.shows {
						fmt.Fprintf(r.Stdout, "%d, H100, 90, 70000, 81559, 60, 600.5\n", i)
					}
					return agent.Exit{}
				}
				w.boot()
				w.equal("programs started before it is known", len(w.machine.Started()), 0)
				if !tc.faulty {
					w.sleep(20 * time.Second)
					w.equal("troubles", len(w.gw.Record().Troubles), 0)
					w.equal("programs started", len(w.machine.Started()), 1)
					return
				}
				r := w.trouble()
				w.equal("reported", r.Kind, events.TroubleGPUFault)
				w.sleep(time.Minute)
				w.equal("programs started", len(w.machine.Started()), 0)
			})
		})
	}
}

func TestHowLongATrainerHasBeenInTrainingIsTold(t *testing.T) {
	inWorld(t, func(w *world, _ *events.JoinReply) {
		w.trainer.Silent, w.trainer.SaveEvery = true, 0
		w.boot()
		w.sleep(2 * time.Minute)
		for i, b := range w.gw.Record().Beats {
			if (b.State == "training") != (b.TrainingMS > 0) && b.TrainingMS != 0 {
				t.Errorf("renewal %d, %s: %d ms", i, b.State, b.TrainingMS)
			}
		}
		beats := w.gw.Record().Beats
		if got := beats[len(beats)-1].TrainingMS; got < 80_000 || got > 91_000 { // all but the hold of half a minute
			t.Errorf("%d ms in training", got)
		}
	})
}
