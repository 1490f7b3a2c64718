.DEFAULT_GOAL := help
.PHONY: help build test race lint sim museum chaos bench bench-checkpoint kills e2e-frameworks drill-notice stores verify

SEEDS ?= 20
KILLS ?= 60
N ?= 1000
RUNS ?= 200
REPLICAS ?= 1
HOURS ?= 6
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
PURE := ./events ./bidder ./bidder/budget ./bidder/ledger ./bidder/market ./failover

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the one binary into bin/
	go build -o bin/spotferry ./services/spotferry

test: ## everything a change must pass (the README's second command)
	go test ./...

race: ## the race detector on the pure packages and the bus
	go test -race -short $(PURE) ./events/natsbus

lint: ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt -w on these'; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...

sim: ## the control plane under virtual time: SEEDS=100 HOURS=6, or SEED=7 alone
	go test ./services/internal/simtest -run TestSeeds -count=1 -v -timeout 30m -args -seeds=$(SEEDS) -hours=$(HOURS) $(if $(SEED),-seed=$(SEED))

museum: ## ten planted bugs and the checks that catch them; PATCH=FILE judges another, ALL=1 by every check
	go run ./services/internal/museum $(if $(ALL),-all) $(if $(FILE),-file $(FILE)) $(PATCH)

chaos: ## the separate programs killed at least KILLS=60 times while jobs train: REPLICAS=2, SEED=3, EVIDENCE=DIR
	go test ./services/internal/chaos -run '^TestChaos$$' -count=1 -v -timeout 20m -args -kills=$(KILLS) -replicas=$(REPLICAS) $(if $(SEED),-seed=$(SEED)) $(if $(EVIDENCE),-evidence=$(abspath $(EVIDENCE)))

bench: ## the figures of the architecture page, then benchmarks: ratios against a peer or a limit in the same run
	go test ./services/internal/bench -count=1 -v -timeout 30m -args -figures
	go test -run '^$$' -bench . -benchtime 1s ./...

bench-checkpoint: ## checkpoints beside cp, restic, rclone and s5cmd, to a directory and to a real S3 server: ROUNDS=3, DIR=DISK
	go run ./services/internal/transfer $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(DIR),-dir $(abspath $(DIR)))

kills: ## every framework's layout killed N=1000 times, mostly inside saves: SEED=3, EVIDENCE=DIR
	go test ./services/internal/kills -count=1 -v -timeout 60m -args -n=$(N) $(if $(SEED),-seed=$(SEED)) $(if $(EVIDENCE),-evidence=$(abspath $(EVIDENCE)))

e2e-frameworks: ## real training frameworks taken from machine to machine, loss by loss: ONLY=hf_lora, RECLAIMS=5, EVIDENCE=DIR
	bash services/internal/frameworks/install.sh
	go test ./services/internal/frameworks -run '^TestFrameworks$$' -count=1 -v -timeout 60m -args -frameworks -reclaims=$(or $(RECLAIMS),5) $(if $(ONLY),-only=$(ONLY)) $(if $(EVIDENCE),-evidence=$(abspath $(EVIDENCE)))

drill-notice: ## RUNS=200 notices of 5 to 120 s over a link of limited rate: SEED=3
	go test ./services/internal/noticedrill -count=1 -v -timeout 60m -args -runs=$(RUNS) $(if $(SEED),-seed=$(SEED))

stores: ## every checkpoint store against its contract, as one table
	go test -count=1 -v -run Conformance ./checkpoint/store/... | go run ./checkpoint/storetest/table

verify: lint test race sim ## lint, race, simulation and every test
