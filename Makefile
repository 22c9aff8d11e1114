# Targets: run build test race lint fuzz sim mutants compat diff suites chaos hostile bench tour docs clean.
# run and test need nothing but Go, lint needs node, python3 and rustfmt as well. compat,
# diff and tour install what they need below build/ (Java, Maven, node, python3 and cargo
# have to be there); chaos needs root for its file systems.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

SEEDS ?= 500
FROM ?= 1
FUZZTIME ?= 10s
SEQUENCES ?= 1000
KILLS ?= 200
CUTS ?= 50
KGO_RECORDS ?= 20000
CLIENTS := tools/compat/clients
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.PHONY: run build test race lint fuzz sim mutants compat diff suites chaos hostile bench tour docs clean

build:
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/millrace ./tools/millrace

run: build
	./bin/millrace serve

test:
	go test ./...

race:
	go test -race ./...
	go test -tags invariants ./core/... ./raftlog/... ./shard/... ./coordinator/...

lint:
	@f=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); [ -z "$$f" ] || { echo "not gofmt'ed:"; echo "$$f"; exit 1; }
	go vet ./...
	go vet -tags invariants ./...
	go vet -tags mutants ./core/... ./raftlog/... ./shard/... ./coordinator/... ./chaos/sim/...
	go tool staticcheck ./...
	@echo "the clients of tools/compat: go vet, staticcheck, python3, node, rustfmt"
	@check=$$(go tool -n staticcheck); cd $(CLIENTS)/go; go vet ./...; $$check ./...
	@python3 -c 'import sys; [compile(open(f, "rb").read(), f, "exec") for f in sys.argv[1:]]' $(CLIENTS)/python/*.py
	@for f in $(CLIENTS)/node/*.js; do node --check $$f; done
	@rustfmt --check --edition 2021 $(CLIENTS)/rust/src/main.rs
	GOOS=linux GOARCH=arm64 go build -o /dev/null ./tools/millrace
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./tools/millrace

fuzz:
	go run ./tools/fuzz -time $(FUZZTIME)

sim:
	go build -o build/sim ./chaos/sim/cmd
	./build/sim -seeds $(SEEDS) -from $(FROM)
	./build/sim -layer log -seeds $(SEEDS) -from $(FROM)

# mutants plays known-bad variants of the broker until the simulation finds them;
# none of them is in a program that is built without the tag.
mutants: build
	go test -tags mutants ./core/mutant
	@if go tool nm bin/millrace | grep core/mutant; then echo "bin/millrace holds something of the mutants"; exit 1; fi
	go build -tags mutants -o build/mutants ./chaos/sim/mutants
	./build/mutants

compat: build
	go run ./tools/compat
	go run ./tools/compat/kafkatools --bin bin/millrace

diff: build
	go run ./tools/compat/diff --seeds $(SEQUENCES) --from $(FROM)

suites: build
	go run ./tools/suites --bin bin/millrace --records $(KGO_RECORDS)

chaos: build
	go run ./chaos/cluster kill --rounds $(KILLS)
	go run ./chaos/cluster powercut --rounds $(CUTS)
	go run ./chaos/cluster fulldisk

hostile: build
	go run ./chaos/hostile -bin bin/millrace

bench: build
	go run ./bench

tour: build
	./tools/scripts/tour.sh

docs:
	go generate ./...

clean:
	rm -rf bin build
