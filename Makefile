# `make` alone lists the targets. With only Go on the machine: build, demo, test, race, fuzz, crash, bench and the checks.
# interop and golden-capture need Java and Maven besides.

GO ?= go
FUZZTIME ?= 5s
CRASHTIME ?= 170s
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help
.PHONY: help build demo test race crash fuzz interop golden-capture golden bench fmt-check vet tidy-check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

build: ## build bin/tidemq
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o bin/tidemq ./cmd/tidemq

demo: build ## delayed messages through a kill -9 of the broker, counted at the end (about 12 s)
	./bin/tidemq demo

test: ## unit, table, property and crash tests
	$(GO) test -timeout 280s ./...

race: ## the same tests under the race detector
	$(GO) test -race -timeout 340s ./...

# More kills, and a plan again: TIDEMQ_CRASH_KILLS=200 TIDEMQ_CRASH_SEED=… make crash CRASHTIME=10m
crash: ## kill -9 a real broker under load, fill its disk, and account for every message
	$(GO) test -count=1 -timeout $(CRASHTIME) -v ./test/crash

fuzz: ## fuzz every decoder of foreign bytes for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$pkg; \
	  done; done

interop: ## the unmodified Java and Go clients of RocketMQ against TideMQ (needs java and mvn)
	bash test/interop/run.sh

golden-capture: ## capture testdata/remoting anew from the real clients (needs java and mvn)
	bash test/interop/capture.sh

golden: ## rewrite testdata/store/golden by what the code writes: the format changes by that (docs/format.md)
	$(GO) test ./store -run 'Format|Version' -update

bench: ## Go benchmarks of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem ./internal/... ./store ./schedule ./broker

fmt-check: ## fail when gofmt would change a file
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt -w these files:"; echo "$$out"; exit 1; fi

vet: ## go vet
	$(GO) vet ./...

tidy-check: ## fail when go mod tidy would change go.mod or go.sum
	$(GO) mod tidy -diff

clean: ## remove what build made
	rm -rf bin
