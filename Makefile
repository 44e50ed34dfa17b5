# `make` alone lists the targets. interop and golden-capture need Java and Maven, newcomer and bench-compare git, release tar; all
# else needs Go alone. Tools beyond go itself are pinned in tools/go.mod and built into bin/tools.

GO ?= go
FUZZTIME ?= 5s
CRASHTIME ?= 170s
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
REF ?= HEAD~1
BENCH ?= .
BENCHCOUNT ?= 6
BENCHPKGS ?= ./internal/... ./store ./schedule ./broker
DURATION ?= 600
SOAKKILLS ?= 100
TOOLS := bin/tools
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help
.PHONY: help build demo test race crash fuzz interop golden-capture golden bench bench-compare soak newcomer release cover lint fmt-check vet tidy-check clean

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

interop: ## the unmodified Java and Go clients and mqadmin of RocketMQ against TideMQ (needs java and mvn)
	bash test/interop/run.sh

golden-capture: ## capture testdata/remoting anew from the real clients (needs java and mvn)
	bash test/interop/capture.sh

golden: ## rewrite testdata/store/golden by what the code writes: the format changes by that (docs/format.md)
	$(GO) test ./store -run 'Format|Version' -update

bench: ## Go benchmarks of the hot paths (BENCH=regexp)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(BENCHPKGS)

bench-compare: $(TOOLS)/benchstat ## the same for commit REF and for the tree as it is, compared by benchstat (BENCH, BENCHCOUNT)
	@set -e; old=$$(mktemp -d); trap 'rm -rf "$$old"' EXIT; \
	  git clone --quiet --no-hardlinks . "$$old/tree"; git -C "$$old/tree" checkout --quiet "$$(git rev-parse --verify '$(REF)^{commit}')"; \
	  echo "$(REF) …"; $(GO) test -C "$$old/tree" -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(BENCHPKGS) >"$$old/$(subst /,-,$(REF))"; \
	  echo "this tree …"; $(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) $(BENCHPKGS) >"$$old/tree.txt"; \
	  cd "$$old"; "$(CURDIR)/$(TOOLS)/benchstat" "$(subst /,-,$(REF))" tree.txt

soak: ## the crash tests for DURATION seconds, in rounds of SOAKKILLS kills per flush mode with a new seed each
	@set -e; end=$$(($$(date +%s) + $(DURATION))); round=0; \
	while [ $$round = 0 ] || [ $$(date +%s) -lt $$end ]; do \
	  round=$$((round + 1)); echo "round $$round, $$(date)"; \
	  TIDEMQ_CRASH_KILLS=$(SOAKKILLS) $(GO) test -count=1 -timeout 60m -v ./test/crash; \
	done; echo "$$round rounds passed"

newcomer: ## clone what is committed and type README.md's first commands, word for word (takes as long as make demo and make test)
	bash test/newcomer/run.sh

release: ## static binaries for PLATFORMS with checksums, in bin/release
	@set -e; rm -rf bin/release; mkdir -p bin/release; \
	for p in $(PLATFORMS); do \
	  name=tidemq-$(VERSION)-$${p%/*}-$${p#*/}; dir=bin/release/$$name; mkdir $$dir; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $$dir/tidemq ./cmd/tidemq; \
	  $(GO) version -m $$dir/tidemq | grep -q 'CGO_ENABLED=0' || { echo "$$dir/tidemq is not static" >&2; exit 1; }; \
	  cp LICENSE README.md $$dir; tar -C bin/release -czf bin/release/$$name.tar.gz $$name; \
	  if [ $$p = "$$($(GO) env GOOS)/$$($(GO) env GOARCH)" ]; then $$dir/tidemq version | grep -F "tidemq $(VERSION)"; fi; \
	  rm -r $$dir; \
	done; \
	cd bin/release; { command -v sha256sum >/dev/null && sha256sum *.tar.gz || shasum -a 256 *.tar.gz; } >SHA256SUMS; cat SHA256SUMS

cover: ## statements that the tests run, by package and in bin/cover.html (but for what they run in processes of their own)
	@mkdir -p bin
	$(GO) test -timeout 280s -coverprofile bin/cover.out -coverpkg ./... $$($(GO) list ./... | grep -v /test/)
	@$(GO) tool cover -html bin/cover.out -o bin/cover.html
	@awk 'NR > 1 {n[$$1] = $$2; if ($$3) hit[$$1] = 1} END {for (b in n) {p = b; sub("/[^/]*$$", "", p); all[p] += n[b]; run[p] += hit[b] * n[b]; a += n[b]; r += hit[b] * n[b]}; \
	  for (p in all) printf "%5.1f %%  %s\n", 100 * run[p] / all[p], p; printf "%5.1f %%  in all\n", 100 * r / a}' bin/cover.out | sort -k 3

lint: $(TOOLS)/staticcheck ## staticcheck for Linux and macOS, and the directions of dependencies
	GOOS=linux $(TOOLS)/staticcheck ./...
	GOOS=darwin $(TOOLS)/staticcheck -checks inherit,-U1000 ./... # helpers of tests for Linux alone are unused there
	$(GO) test ./internal/layers

$(TOOLS)/%: tools/go.mod tools/go.sum
	GOBIN=$(CURDIR)/$(TOOLS) $(GO) install -C tools tool
	@touch $(TOOLS)/*

fmt-check: ## fail when gofmt would change a file
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt -w these files:"; echo "$$out"; exit 1; fi

vet: ## go vet
	$(GO) vet ./...

tidy-check: ## fail when go mod tidy would change go.mod or go.sum
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff

clean: ## remove what build made
	rm -rf bin
