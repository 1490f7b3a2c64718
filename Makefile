.DEFAULT_GOAL := help
.PHONY: help build test race lint sim museum chaos bench verify

SEEDS ?= 20
KILLS ?= 60
REPLICAS ?= 1
HOURS ?= 6
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
PURE := ./events ./bidder ./bidder/budget ./bidder/ledger ./bidder/market ./failover

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

verify: lint test race sim ## lint, race, simulation and every test
