package main

import (
	"encoding/json"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
)

const cannedJob events.JobID = "01jx3kq8zr5v9m2c7t4b6n0d1e"

var (
	start  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	now    = start.Add(20 * time.Minute)
	market = time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC)
)

func pool(zone string, c events.CapacityType) events.Pool {
	return events.Pool{Seller: "local", Region: "north", Zone: zone, InstanceType: "v100.1", Capacity: c, Gang: 1}
}

func cannedSide(epoch int, zone string) events.Side {
	return events.Side{Epoch: epoch, Lease: cannedJob.Lease(epoch, 1), Pool: pool(zone, events.Spot), Price: 918_000_000}
}

func cannedOffer(zone string, c events.CapacityType, price events.PerInstanceHour) events.Offer {
	return events.Offer{
		Pool: pool(zone, c), GPU: events.GPU{Vendor: "nvidia", Model: "V100", Count: 1, MemoryMiB: 16384}, VCPU: 8, RAMMiB: 62464, DiskGB: 100,
		Country: "SE", Price: price, Terms: events.Terms{GrainS: 60, MinimumS: 60}, NoticeS: 120, SpeedPct: 100,
		Market: market.Add(-time.Hour), Seen: now.Add(-3 * time.Second), TTLS: 60,
	}
}

func cannedDecision() events.Decision {
	return events.Decision{
		Rule: "uniform-progress", Action: "buy", Control: start, Market: market, Chosen: 0, Detail: "the cheapest hour of useful work that holds the deadline",
		Inputs: events.Inputs{Spec: "01jx3kq8zr5v9m2c7t4b6n0d1e-1", WorkLeftS: 36000, TimeLeftS: 86400, RestartS: 120, AcquireS: 300, SaveMS: 2500, StateBytes: 5_200_000,
			Budget: 20 * events.Dollar, Spent: 1_230_000, Reserved: 500_000, HorizonS: 3600, TeardownS: 60, DwellS: 1800,
			CoolDowns: []events.PoolUntil{{Pool: pool("north-c", events.Spot), Until: now.Add(time.Minute), Why: "no-capacity"}}},
		Candidates: []events.Candidate{
			{Offer: cannedOffer("north-b", events.Spot, 918_000_000), AgeMS: 3000, Hazard: 0.051, Life: 19.6, StoodS: 7200, Max: 1_100_000_000, Hours: 10.4, Total: 10_780_000, Score: 955_000_000},
			{Offer: cannedOffer("north-a", events.OnDemand, 3_060_000_000), AgeMS: 3000, Hours: 10.03, Total: 31_900_000, Score: 3_070_000_000, WhyNot: "over budget"},
			{Offer: cannedOffer("north-c", events.Spot, 880_000_000), AgeMS: 61_000, Hazard: 0.2, WhyNot: "cooling down: no-capacity"},
		},
		Omitted: map[string]int{"too dear": 4, "no GPU of that model": 11},
	}
}

func cannedPlan() console.Plan {
	return console.Plan{
		Possible: true, Certain: true, Probability: 1, Cheapest: 9_000_000, Fastest: 10, Decision: cannedDecision(),
		Expected: 10_780_000, P90: 12_400_000, OnDemand: 31_900_000, Budget: 20 * events.Dollar, Market: market, Deadline: market.Add(24 * time.Hour),
		Assumed: []string{"a V100 takes 10 h for all of the work, as the job file says"},
	}
}

func cannedCheckpoint(epoch int, step int64) events.Checkpoint {
	return events.Checkpoint{Name: "e3-s1100", Epoch: epoch, Step: step, Digest: "ab12", Bytes: 5_234_567, Files: 4, Weights: "cd34"}
}

func cannedRunning() console.Job {
	side := cannedSide(3, "north-b")
	newest := cannedCheckpoint(3, 1100)
	return console.Job{
		ID: cannedJob, Name: "llama-7b", Status: "running", Org: "local", Team: "research", By: "alice", Epoch: 3, Epochs: 2, Step: 1200, Committed: 1100, Steps: 4000,
		Machine: &side, Failovers: 1, Reclaims: 1, LostSteps: 40, LostCost: 12_345, Budget: 20 * events.Dollar, Spent: 1_230_000, Reserved: 500_000, OnDemand: 3_100_000,
		Submitted: start, Market: market, Deadline: market.Add(24 * time.Hour), Checkpoint: &newest, OpenLeases: []events.LeaseID{side.Lease},
	}
}

func cannedEnded(o events.Outcome) console.Job {
	j := cannedRunning()
	j.Status, j.Over, j.Closed, j.Machine, j.OpenLeases = string(o), true, true, nil, nil
	j.Step, j.Committed, j.Ended = 4000, 4000, start.Add(10*time.Minute)
	if o != events.Succeeded {
		j.Detail = "the trainer exited with code 3 twice at the same checkpoint"
		j.ExitCode = 3
	}
	return j
}

func cannedJobs() []console.Job {
	other := cannedEnded(events.Failed)
	other.ID, other.Name, other.Team, other.Steps, other.OnDemand = "01jx3m0000000000000000000a", hostile, "", 0, 0
	return []console.Job{cannedRunning(), other}
}

func cannedEntry(n uint64, at time.Duration, subject, kind, summary string, f events.Fact) entry {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return entry{ID: events.EventID(subject + "-1"), Time: start.Add(at), Subject: subject, Type: kind, Summary: summary, Position: n, Fact: b}
}

func cannedEntries() []entry {
	lease := string(cannedJob.Lease(3, 1))
	resume := cannedCheckpoint(2, 1060)
	return []entry{
		cannedEntry(1, 0, string(cannedJob), "job.submitted", `"llama-7b" by alice, budget $20.00`, events.JobSubmitted{By: "alice"}),
		cannedEntry(2, 1500*time.Millisecond, string(cannedJob), "job.placed", "epoch 2 on x, from the beginning", events.JobPlaced{Epoch: 2, Pool: pool("north-a", events.Spot)}),
		cannedEntry(3, 8*time.Minute, string(cannedJob), "job.noticed", "terminate in 2m0s (imds)", events.JobNoticed{Epoch: 2}),
		cannedEntry(4, 8*time.Minute+time.Second, lease, "lease.intended", "about to buy local/north-b", events.LeaseIntended{Decision: cannedDecision()}),
		cannedEntry(5, 8*time.Minute+20*time.Second, string(cannedJob), "job.placed", "epoch 3 on y, resumes step 1060", events.JobPlaced{Epoch: 3, Pool: pool("north-b", events.Spot), Resume: &resume}),
		cannedEntry(6, 8*time.Minute+25*time.Second, string(cannedJob), "job.failed-over", "#1 notice: north-a to north-b, 40 steps lost ($0.01)", events.JobFailedOver{}),
	}
}

// cannedEvents pages through entries, two at a time, as the console does.
func cannedEvents(entries []entry) func([]byte) any {
	return func(body []byte) any {
		var q console.Query
		if err := json.Unmarshal(body, &q); err != nil {
			return &console.Problem{Code: "invalid", Message: err.Error()}
		}
		p := entryPage{Entries: []entry{}, Next: q.After}
		for _, e := range entries {
			if e.Position <= q.After {
				continue
			}
			if len(p.Entries) == 2 {
				p.More = true
				break
			}
			p.Entries, p.Next = append(p.Entries, e), e.Position
		}
		return p
	}
}

func cannedFailover() console.Failover {
	began := start.Add(8 * time.Minute)
	resumed := cannedCheckpoint(2, 1060)
	phase := func(name string, at, took int64, clock string) events.Phase {
		return events.Phase{Name: name, Began: began.Add(time.Duration(at) * time.Millisecond), MS: took, Clock: clock}
	}
	return console.Failover{Job: cannedJob, Name: "llama-7b", Event: "01jx3kq8zr5v9m2c7t4b6n0d1e-6", Cause: events.CauseNotice, Detail: "the seller takes the machine", Record: events.Failover{
		N: 1, Cause: events.CauseNotice, Detail: "the seller takes the machine", Evidence: []events.EventID{"01jx3kq8zr5v9m2c7t4b6n0d1e-3"},
		From: cannedSide(2, "north-a"), To: cannedSide(3, "north-b"), Noticed: true, NoticeMS: 120_000, UsedMS: 4200,
		Began: began, Ended: began.Add(25 * time.Second),
		Phases: []events.Phase{
			phase("detect", 0, 40, "agent"), phase("save", 100, 3100, "agent"), phase("upload", 3200, 1000, "agent"),
			phase("decide", 60, 3, "control"), phase("acquire", 63, 9000, "control"), phase("boot", 9063, 11000, "control"), phase("restore", 20063, 2000, "agent"), phase("first-step", 22063, 2937, "agent"),
		},
		Resumed: &resumed, LastStep: 1100, LostSteps: 40, LostMS: 6100, LostCost: 12_345, Decision: events.EventID(string(cannedJob.Lease(3, 1)) + "-1"),
	}}
}

func cannedBill() console.Bill {
	from := market.Add(time.Hour)
	segment := func(n int, category string, hours time.Duration, price events.PerInstanceHour, amount events.MicroUSD) events.Segment {
		return events.Segment{N: n, Category: category, From: from, To: from.Add(hours * time.Hour), Use: events.Use(hours * time.Hour), List: price, Contract: price, Billed: price, Amount: amount}
	}
	return console.Bill{
		Job: cannedJob, Name: "llama-7b", Limit: 20 * events.Dollar, Compute: 2_148_000, Credits: -918_000, Total: 1_230_000, Reserved: 500_000,
		OnDemand: 3_100_000, LostWork: 12_345, Finality: events.Provisional,
		Lines: []console.BillLine{
			{Lease: cannedJob.Lease(2, 1), Pool: pool("north-a", events.Spot), State: "settled", From: from, To: from.Add(2 * time.Hour), Use: 2_000_000, Amount: 1_230_000, Finality: events.Final,
				Segments: []events.Segment{segment(1, "compute", 1, 612_000_000, 612_000), segment(2, "compute", 1, 618_000_000, 618_000)}},
			{Lease: cannedJob.Lease(3, 1), Pool: pool("north-b", events.Spot), State: "open", From: from.Add(2 * time.Hour), Use: 1_000_000, Amount: 0, Credit: -918_000, Finality: events.Provisional,
				Segments: []events.Segment{segment(1, "compute", 1, 918_000_000, 918_000), segment(2, "credit", 1, 918_000_000, -918_000)}},
		},
	}
}

func cannedCheckpoints() []console.Checkpoint {
	bad := cannedCheckpoint(2, 1000)
	bad.Name = "e2-s1000"
	gone, best := cannedCheckpoint(2, 900), cannedCheckpoint(2, 1060)
	gone.Name, best.Name = "e2-s900", "e2-s1060"
	return []console.Checkpoint{
		{Checkpoint: gone, Committed: start.Add(5 * time.Minute), Dropped: &console.CheckpointDrop{At: start.Add(10 * time.Minute), Reason: "policy.checkpoint.keep"}},
		{Checkpoint: bad, Committed: start.Add(7 * time.Minute), Rejected: "model.safetensors: 12 bytes are missing"},
		{Checkpoint: best, Committed: start.Add(8 * time.Minute), SaveMS: 3100, UploadMS: 1000,
			Pins: []console.CheckpointPin{{By: "bob", Reason: "best loss " + hostile, Since: start.Add(9 * time.Minute)}}},
		{Checkpoint: cannedCheckpoint(3, 1100), Committed: start.Add(19 * time.Minute), Newest: true, SaveMS: 3000, UploadMS: 900},
	}
}

func cannedUsage() gateway.Usage {
	return gateway.Usage{
		Job: cannedJob, Objects: 9, Bytes: 9_400_000, Needed: 8_100_000, Held: 15_703_701, Saved: 7_603_701, Waiting: 1, NextDue: now.Add(4 * time.Minute),
		Checkpoints: []gateway.CheckpointUsage{
			{Name: "e2-s1000", Objects: 3, Stored: 5_100_000, New: 5_100_000}, {Name: "e2-s1060", Objects: 4, Stored: 5_100_000, New: 2_000_000, Shared: 3_100_000},
			{Name: "e3-s1100", Objects: 4, Stored: 5_100_000, New: 1_000_000, Shared: 4_100_000},
		},
	}
}

func cannedContents(body []byte) any {
	var q console.CheckpointQuery
	_ = json.Unmarshal(body, &q)
	if q.Name == "e2-s900" {
		return &console.Problem{Code: "conflict", Message: "no such checkpoint is kept"}
	}
	return gateway.Contents{
		Job: cannedJob, Name: q.Name, Schema: 2, Framework: "hf", Dir: "checkpoint-1100", Created: start.Add(19 * time.Minute), SaveMS: 3000, Sealed: true,
		Files: []gateway.ContentFile{
			{Path: "model.safetensors", Kind: checkpoint.Regular, Size: 5_000_000, Chunks: 2, Stored: 4_800_000, Reused: 3_000_000},
			{Path: "trainer_state.json" + hostile, Kind: checkpoint.Regular, Size: 234_567, Chunks: 1, Stored: 20_000, Zeros: 4096},
		},
		Objects: []checkpoint.Object{{Name: "v1/local/jobs/j/data/0000000002/ab", Size: 3_000_000}, {Name: "v1/local/jobs/j/data/0000000003/cd", Size: 1_820_000}},
	}
}

func cannedOffers() []console.Offer {
	none := false
	dear := cannedOffer("north-a", events.OnDemand, 3_060_000_000)
	dear.InStock = &none
	return []console.Offer{
		{Offer: dear, AgeMS: 3000},
		{Offer: cannedOffer("north-b", events.Spot, 918_000_000), AgeMS: 3000, Hazard: 0.051},
	}
}

func cannedInstances() []console.Instance {
	return []console.Instance{
		{Lease: cannedJob.Lease(3, 1), Instance: "i-0042", Pool: pool("north-b", events.Spot), State: "launched", Seller: "running", Price: 918_000_000, Since: start.Add(9 * time.Minute)},
		{Lease: "unknown-1-1", Instance: "i-0666", Pool: pool("north-c", events.Spot), State: "unknown to us", Seller: "running", Price: 880_000_000, Orphan: true},
	}
}

// system is one that knows the canned job, running.
func system() answers {
	return answers{
		console.GetClock:     always(console.Clock{Control: now, Market: market, Version: "v1.2.3"}),
		console.GetJobs:      always(cannedJobs()),
		console.GetJob:       always(cannedRunning()),
		console.GetEvents:    cannedEvents(cannedEntries()),
		console.GetFailovers: always([]console.Failover{cannedFailover()}),

		console.GetFailoverList:  always(console.FailoverList{Items: []console.Failover{cannedFailover()}, Next: 1}),
		console.GetFailoverStats: always(cannedStats()),
		console.GetFailover:      cannedMove,
		console.GetDecision:      always(*cannedReport().Choice),

		console.GetCheckpoints:   always(cannedCheckpoints()),
		console.GetCheckpointUse: always(cannedUsage()),
		console.GetCheckpoint:    cannedContents,
		console.GetBill:          always([]console.Bill{cannedBill()}),
		console.GetOffers:        always(cannedOffers()),
		console.GetInstances:     always(cannedInstances()),
		console.GetLogs:          always(console.LogPage{}),
		console.GetPlan:          always(cannedPlan()),
		console.GetHealth:        always([]console.Check{{Name: "bus", OK: true, Detail: "5 streams"}}),
		console.DoSubmit:         always(cannedRunning()),
		console.DoCancel:         always(cannedRunning()),
	}
}
