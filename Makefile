# kvreplay: `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO      ?= go
BIN     := bin/kvreplay
TRACES  := $(wildcard datasets/corpus/deep_*.parquet datasets/corpus/wide_*.parquet)
RESULTS ?= results
CORPUS  ?= results/corpus
FUZZTIME ?= 500x
TARGETS ?= Fuzz[A-Za-z0-9_]*
BENCHTIME ?= 1s

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BUILT   := $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
MODULE  := github.com/kvreplay/kvreplay
CLI     := $(MODULE)/cmd/cli
LDFLAGS := -s -w -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT) -X $(CLI).built=$(BUILT)

# With the same flags everywhere, vet, tests, and the builds of tests and releases compile each package
# once. Only the race detector needs C.
export CGO_ENABLED := 0
# Test programs without debugging information link in two thirds of the time.
export GOFLAGS := $(strip $(GOFLAGS) $(if $(findstring -trimpath,$(GOFLAGS)),,-trimpath -ldflags=-w))

.PHONY: help build site release image screenshots leaderboard corpus systems-corpus test test-all programs check fmt vet staticcheck tidy portable race race-packages race-commands bench bench-once fuzz fuzz-inputs clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Tags that make the program smaller. minimal: the plotting library leaves out PDF, EPS, TeX and
# bitmaps, because charts are SVG. nethttpomithttp2: requests to object stores use HTTP/1.1, 0.35 MB.
# tinygo: Arrow takes encoding/json instead of a second JSON library, 1.3 MB.
TAGS := minimal,nethttpomithttp2,tinygo

# $(call program,FILE,FLAGS) builds the program. Its module file takes the fonts of scripts/release/fonts.
define program
mkdir -p $(dir $(1)); cat go.mod scripts/release/fonts/require.mod > $(1).mod; cat go.sum scripts/release/fonts/go.sum > $(1).sum; \
  code=0; $(GO) build -modfile $(1).mod -trimpath $(2) -tags $(TAGS) -ldflags '$(LDFLAGS)' -o $(1) ./cmd/kvreplay || code=$$?; \
  rm $(1).mod $(1).sum; [ $$code = 0 ]
endef

build: ## build bin/kvreplay
	@$(call program,$(BIN))

site: leaderboard ## the web site into site/: board with submissions, systems, all documents (RESULTS=)
	@rm -rf site
	@$(GO) run ./scripts/site -program $(BIN) -results $(RESULTS) -out site

release: ## archives, wheels, bills of materials and checksums for every platform into dist/ (needs python3 with pip)
	@$(GO) run ./scripts/release

# buildah makes equal images of equal programs. BUILDAH_ISOLATION=chroot builds without namespaces.
image: ## a container image of the program, kvreplay:VERSION (needs buildah)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	  $(call program,$$dir/kvreplay,-buildvcs=false) && \
	  buildah build --timestamp 0 --tag kvreplay:$(VERSION) --file Containerfile $$dir

leaderboard: build ## replay the corpus of real traces through every policy, print the board, write results/ (RESULTS=)
	@$(BIN) replay $(TRACES) --policy all --policy lossy --capacity 1.25x,1.5x,2x,3x,4x --per request --out $(RESULTS)
	@$(BIN) leaderboard $(RESULTS) --out $(RESULTS)

screenshots: leaderboard ## pictures of the page in metrics/PLOTS.md (needs chromium and python3 with Pillow)
	@for width in 375 1024 1920; do \
	  chromium --headless --no-sandbox --hide-scrollbars --window-size=$$width,1400 --screenshot=$(CURDIR)/metrics/plots/page-$$width.png file://$(abspath $(RESULTS))/leaderboard.html 2>/dev/null; \
	  python3 -c 'import sys; from PIL import Image; p = sys.argv[1]; Image.open(p).convert("RGB").quantize(24).save(p, optimize=True)' metrics/plots/page-$$width.png; \
	done

corpus: build ## traces of a real model into results/corpus/ (CORPUS=): all of scripts/corpus/plan.toml, or TASKS= PARTS= LENGTH= SAMPLES= STEPS= LAYERS= LONGEST= THREADS=; CHECK= compares
	@python3 scripts/corpus/corpus.py --out $(CORPUS) $(if $(TASKS),--tasks $(TASKS)) $(if $(PARTS),--parts $(PARTS)) $(if $(LENGTH),--length $(LENGTH)) \
	  $(if $(SAMPLES),--samples $(SAMPLES)) $(if $(STEPS),--steps $(STEPS)) $(if $(THREADS),--threads $(THREADS)) $(if $(CHECK),--check $(CHECK)) $(if $(LAYERS),--layers $(LAYERS)) $(if $(LONGEST),--longest $(LONGEST))

systems-corpus: ## long requests through nine selectors in all layers, into results/systems/ (CORPUS=): part systems of plan.toml, with the variables of make corpus
	@$(MAKE) --no-print-directory corpus PARTS=systems CORPUS=$(if $(filter file,$(origin CORPUS)),$(RESULTS)/systems,$(CORPUS))

# A test that takes long has a quick variant, or none, with -short (testing.Short).
test: programs ## the quick tests, of every package
	@echo "make test: quick variants; make check runs the long ones: figures of documents, other programs and modules, each damaged bit"
	$(GO) test -short -vet=off -timeout 60m ./...

test-all: programs ## every test with its long variant
	$(GO) test -vet=off -timeout 60m ./...

programs:
	@command -v python3 >/dev/null || echo "make: python3 not found: the tests against pyarrow, pandas and DuckDB are skipped"
	@command -v chromium chromium-browser google-chrome >/dev/null || echo "make: no chromium found: the tests of pages in a browser are skipped"
	@command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v sbatch >/dev/null && command -v munged >/dev/null || \
	  echo "make: no slurmctld, slurmd, sbatch and munged found: the test of batches on Slurm is skipped"

check: fmt vet staticcheck tidy test-all race bench-once fuzz-inputs ## everything CI runs
	@echo "make check: all passed"

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt wants to change:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...

staticcheck:
	$(GO) tool staticcheck ./...

tidy:
	$(GO) mod tidy -diff
	cd policies/example && $(GO) mod tidy -diff
	cd scripts/kubernetes && $(GO) mod tidy -diff
	cd scripts/release/fonts && $(GO) mod tidy -diff

portable: ## what documents state to the digit, from a build that rounds sums of products once (GOAMD64=v3), as Go's builds for arm64 do
	@if grep -qsw avx2 /proc/cpuinfo; then set -x; GOAMD64=v3 $(GO) test -vet=off -run 'README|Reproduction|CatalogueMakes|Table' ./cmd/cli && \
	    GOAMD64=v3 $(GO) test -vet=off -run 'FingerprintsStay' ./replay/run; \
	  else echo "make portable: this processor can not run GOAMD64=v3: skipped"; fi

# Only packages that start goroutines can race. Built-in policies start none, and replay/run runs them
# side by side. Studies of papers and datasets/ruler start goroutines that share nothing. Of cmd/cli only
# the tests of commands that share files and memory run. Of the others, tests are left out that try many
# settings, damages or programs with the same goroutines as the rest.
SIDE := Batch|Shard|S3|ServeRepeats|AddUp|Stopped|CtrlC|DiskFull|TwoRuns|Progress|LeaderboardOut|SyntheticOverlap|Plan
ALONE := RatiosAreMultiplied|TestIntervals|TestCoverage|TestLevel|BoundsKeepP|AgreeWithReferee|RunOf|RunGrows|FlippedBits|FormatExamples|PythonReads|ReadPython|PythonHalves
race: ## the race detector. Two parts run side by side, because the tests of a package use one processor
	@$(MAKE) --no-print-directory --output-sync -j 2 race-commands race-packages

race-packages:
	CGO_ENABLED=1 $(GO) test -race -short -vet=off -timeout 60m -skip '$(ALONE)' $$($(GO) list $$(grep -rlE --include='*.go' 'sync/errgroup"|^\s*go (func|[a-zA-Z.]+\()|\.Go\(' . | \
	  xargs -n 1 dirname | sort -u | grep -vxE './(policies/policytest|replay/reproduce/.*|datasets/ruler|cmd/cli)'))

race-commands:
	CGO_ENABLED=1 $(GO) test -race -short -vet=off -timeout 60m -run '$(SIDE)' -skip 'Killed|Slurm|Kubernetes' ./cmd/cli

bench: ## speed, with the peers beside it (BENCHTIME=1s)
	@$(GO) test -run '^$$' -bench 'LRU|Decode|Workers|Policy|Delta|Cells|Mechanisms' -benchtime $(BENCHTIME) -count 6 ./replay/run | $(GO) tool benchstat -filter '.unit:Maccess/s' -col /engine -row .name,/trace,/policy,/workers,/mechanism -

bench-once:
	$(GO) test -vet=off -timeout 60m -run '^$$' -bench . -benchtime 1x $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u)

# Coverage guides Go's fuzzing in the packages of kvreplay alone. All others are compiled once, for tests too.
# Two packages are fuzzed at a time, because the first run of the seeds uses one processor.
fuzz: ## every fuzz target (TARGETS=regexp) for FUZZTIME, runs or seconds (short times end in Go's own "context deadline exceeded")
	@export programs=$$(mktemp -d) found=$$($(GO) env GOCACHE)/fuzz/$(MODULE); trap 'rm -rf "$$programs"' EXIT; \
	  folders=$$(grep -rlE --include='*_test.go' '^func $(TARGETS)\(' . | xargs -n 1 dirname | sort -u); \
	  $(GO) test -c -vet=off -gcflags='$(MODULE)/...=-d=libfuzzer' -o $$programs/ $$folders; \
	  xargs -P 2 -I DIR bash -euo pipefail -c 'cd DIR; \
	    for f in $$(grep -hoE "^func $(TARGETS)\(" *_test.go | cut -d" " -f2 | tr -d "("); do \
	      echo "fuzz DIR $$f"; $$programs/$$(basename DIR).test -test.paniconexit0 -test.run "^$$" -test.fuzz "^$$f\$$" \
	        -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 1x -test.fuzzcachedir $$found/DIR || exit 255; \
	    done' <<< "$$folders"

# The conformance kit draws settings of every policy in test-all, so only the other targets run here.
fuzz-inputs:
	@$(MAKE) --no-print-directory fuzz TARGETS='Fuzz([^C]|C[^o]|Co[^n])[A-Za-z0-9_]*'

clean: ## remove bin/ and results/ (RESULTS=), with all rows and the corpus in it
	rm -rf bin $(RESULTS)
