package floors

// room is one package of the drawing, or with a last element of * every package
// directly below that has no room of its own.
type room struct {
	path   string
	floor  int
	beside []string // rooms of the same floor that are its contract, or that it is there to assemble
	never  []string // rooms below that it must not know; a last element of ... is the room and all below it
	// plain: imports nothing but the standard library and what stands below.
	plain bool
	// support: helps tests, is imported by none but tests and other support.
	support bool
}

// drawing is the architecture: who stands on which floor. A package may import
// what stands on lower floors, and on its own floor only what it names.
var drawing = []room{
	// 4: programs. main and wiring.
	{path: "services/*", floor: 4},

	// 3: what programs are made of.
	{path: "services/internal/*", floor: 3},
	{path: "services/internal/machine", floor: 3, beside: []string{"services/internal/process"}},
	{path: "services/internal/installation", floor: 3, beside: []string{"services/internal/storage"}},
	{path: "services/internal/figures", floor: 3, beside: []string{"services/internal/process"}},
	{path: "services/internal/plane", floor: 3, beside: []string{"services/internal/console", "services/internal/process", "services/internal/installation"}},
	{path: "services/internal/dev", floor: 3, beside: []string{"services/internal/console", "services/internal/process", "services/internal/installation", "services/internal/figures", "services/internal/tracing", "services/internal/plane", "services/internal/storage"}},
	{path: "services/internal/programs", floor: 3, beside: []string{"services/internal/process", "services/internal/storage", "services/internal/installation", "services/internal/machine", "services/internal/figures", "services/internal/tracing", "services/internal/plane"}},
	{path: "services/internal/transfer", floor: 3, beside: []string{"services/internal/machine"}},
	{path: "services/internal/rehearse", floor: 3, beside: []string{"services/internal/console"}},
	{path: "services/internal/fleet", floor: 3, beside: []string{"services/internal/installation"}, support: true},
	{path: "services/internal/simtest", floor: 3, beside: []string{"services/internal/console", "services/internal/process", "services/internal/plane"}, support: true},
	{path: "services/internal/floors", floor: 3, plain: true},
	{path: "bidder/backtest", floor: 3, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},

	// 2: deciders and adapters.
	{path: "bidder", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/*", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/remote/remotetest", floor: 2, beside: []string{"bidder/provider/remote"}, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}, support: true},
	{path: "bidder/provider/aws/awsfake", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/vast/vastfake", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/lambda/lambdafake", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/runpod/runpodfake", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/azure/azurefake", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/gcp/gcpfake", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}},
	{path: "bidder/provider/providertest", floor: 2, never: []string{"failover/...", "checkpoint/...", "events/natsbus"}, support: true},
	{path: "failover/agent", floor: 2, never: []string{"bidder/..."}},
	{path: "failover/agent/agenttest", floor: 2, beside: []string{"failover/agent"}, never: []string{"bidder/..."}, support: true},
	{path: "failover/gateway", floor: 2, never: []string{"bidder/..."}},

	// 1: one thing each.
	{path: "bidder/market", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/budget", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/ledger", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/ops", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/provider", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/provider/gpu", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/provider/named", floor: 1, never: []string{"checkpoint"}},
	{path: "bidder/provider/wire", floor: 1, beside: []string{"bidder/provider"}, never: []string{"checkpoint"}},
	{path: "bidder/provider/keyless", floor: 1, beside: []string{"bidder/provider"}, never: []string{"checkpoint"}},
	{path: "bidder/trace", floor: 1, never: []string{"checkpoint"}},
	{path: "failover", floor: 1, never: []string{"checkpoint"}},
	{path: "events/natsbus", floor: 1, never: []string{"checkpoint"}},
	{path: "events/eventstest", floor: 1, support: true},
	{path: "events/natsbus/natsbustest", floor: 1, support: true},
	{path: "checkpoint/framework", floor: 1},
	{path: "checkpoint/input", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/framework/frameworktest", floor: 1, support: true},
	{path: "checkpoint/store/*", floor: 1},
	{path: "checkpoint/store/wire", floor: 1},
	{path: "checkpoint/store/s3", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/store/signed", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/store/served", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/store/gcs", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/store/azure", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/store/nats", floor: 1, beside: []string{"checkpoint/store/wire"}},
	{path: "checkpoint/storetest", floor: 1, beside: []string{"checkpoint/storetest/faultproxy"}, support: true},
	{path: "checkpoint/storetest/faultproxy", floor: 1, support: true},
	{path: "checkpoint/storetest/s3server", floor: 1, support: true},
	{path: "checkpoint/storetest/table", floor: 1, beside: []string{"checkpoint/storetest"}, support: true},

	// 0: words, bytes and files.
	{path: "events", floor: 0, plain: true},
	{path: "events/schema", floor: 0, beside: []string{"events"}, plain: true},
	{path: "checkpoint", floor: 0, beside: []string{"checkpoint/chunk"}},
	{path: "checkpoint/chunk", floor: 0},
	{path: "deploy/examples", floor: 0, plain: true},
}
