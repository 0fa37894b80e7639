# Targets of the monorepo; `make help` lists them. Needs Go, git, make and a C compiler, and builds all other tools.
SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL: # the go command and the tests are parallel themselves; targets run in the given order

# go.work lists the modules. The tools are not in it (docs/adr/0004).
MODULES := $(shell go work edit -json go.work | sed -n 's|.*"DiskPath": "\./\(.*\)".*|\1|p')
TOOLS := tools tools/lint tools/charts tools/images tools/release bundle olm
PROGRAMS := olm/programs olm/programs/v1 tools/crdify tools/csisanity # go.mod files only: they pin third-party programs
OPERATORS := $(sort $(filter operators/%,$(MODULES)))
RELEASED := $(filter-out sdk/bench sdk/cmd/homeostat sdk/e2e,$(MODULES)) # the published modules (docs/adr/0081)
BUNDLES := $(patsubst %/config/manifests,%,$(wildcard $(OPERATORS:%=%/config/manifests)))

# tool NAME: the path of a pinned tool. The go command builds it on first use and keeps it in its cache.
tool = $$(GOWORK=off go -C $(CURDIR)/tools tool -n $(1))
GOLANGCI_LINT = $$(GOWORK=off go -C $(CURDIR)/tools/lint tool -n golangci-lint)
CHARTS = GOWORK=off go -C tools/charts run .
IMAGES = GOWORK=off go -C tools/images run .
RELEASE = GOWORK=off go -C tools/release run .
BUNDLE = GOWORK=off go -C bundle run ./cmd/bundle
# Without these tags, libraries of OLM need C libraries.
OLM_TAGS = json1,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper
OLM = GOWORK=off go -C olm
TESTKIT = build/testkit
ENGINE = build/homeostat-engine

# Only test/nodes and test/nodes-smoke run containers.
export TESTKIT_NODES ?= 0

# Only -race needs C. Everything else is compiled without it, so that all targets share the compiled packages of Kubernetes.
export CGO_ENABLED = 0

# Parameters of the targets under "Ship it".
OPERATOR ?= immortalcontainer
CONFIG ?= default
IMAGE ?= registry.invalid/homeostat/$(OPERATOR):dev
KUBECTL ?= $$(command -v kubectl || echo "$$(go run ./testkit/cmd/testkit assets)/kubectl")

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^#?[a-z][a-zA-Z\/<>-]*:.*## / { sub(/^#/, ""); printf "  %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: up check-root down kubeconfig attacks olm demo $(TESTKIT) $(ENGINE)
$(TESTKIT): # always: the go command decides if there is something to build
	@test -e $@ || echo 'Compiling testkit and what it builds on: 2 to 4 minutes on 2 cores, once' >&2
	@go build -o $@ ./testkit/cmd/testkit

$(ENGINE):
	@go build -o $@ ./sdk/cmd/homeostat-engine

# testkit checks it as well, after it was compiled.
check-root:
	@test "$$(id -u)" = 0 || { echo 'make up: REAL=1 needs root, because it makes namespaces, mounts and control groups' >&2; exit 2; }

# CONTEXT has to be on the command line: a variable in the environment is no consent to use a cluster.
up: $(if $(REAL),check-root) $(TESTKIT) ## Run a cluster with every operator and its sample until Ctrl-C (DETACH=1: until make down; BARE=1: without operators; REAL=1: on real nodes; CONTEXT=NAME: use your cluster)
	@$(if $(REAL),$(MAKE) --no-print-directory images-base >&2)
	@$(TESTKIT) up $(if $(REAL),--real --images build/images-base) $(if $(NODES),--nodes $(NODES)) $(if $(DETACH),--detach) $(if $(BARE),--bare) $(if $(filter command,$(origin CONTEXT)),--context '$(CONTEXT)') $(OPERATORS)

down: $(TESTKIT) ## Stop the cluster of `make up DETACH=1`
	@$(TESTKIT) down

kubeconfig: $(TESTKIT) ## Print the path of the running cluster's kubeconfig
	@$(TESTKIT) kubeconfig

# attacks and olm always use the cluster of make up and ignore the user's KUBECONFIG.
attacks: $(TESTKIT) ## Try the attacks of docs/security.md on the cluster of `make up`: 5 minutes (ARGS='S1 S3')
	@KUBECONFIG=$$($(TESTKIT) kubeconfig) && export KUBECONFIG && PATH="$$($(TESTKIT) assets):$$PATH" tools/attacks/attacks.sh $(ARGS)

olm: $(TESTKIT) ## Run a real OLM v0 beside the cluster of `make up BARE=1` until Ctrl-C (V=1: OLM v1)
	@test -e build/olm || echo 'Compiling what serves OLM, which takes minutes the first time' >&2
	@$(OLM) build -tags $(OLM_TAGS) -o $(CURDIR)/build/olm ./cmd/olm
	@KUBECONFIG=$$($(TESTKIT) kubeconfig) && export KUBECONFIG && exec build/olm $(if $(filter 1 v1,$(V)),-v1)

demo: ## Run the scripted demo of each operator on a cluster of its own (OPERATOR=myapp: of that one)
	@for o in $(DEMOS); do echo "== $$o (compiling it takes minutes the first time)" && \
		go run ./operators/$$o/cmd/demo || exit; done

WITH_DEMO = $(patsubst operators/%/cmd/demo,%,$(wildcard $(OPERATORS:%=%/cmd/demo)))
DEMOS = $(if $(filter file,$(origin OPERATOR)),$(WITH_DEMO),$(or $(filter $(OPERATOR),$(WITH_DEMO)),$(error \
	There is no demo of $(OPERATOR); OPERATOR is one of: $(WITH_DEMO))))

##@ Build and test

.PHONY: build check test test-all test-rest test-long test-times test-times-check $(MODULES:%=test/%) test/python wheel test/tools test/tools/charts test/tools/images test/images-base test/nodes test/nodes-smoke test/tools/release test/bundle test/olm olm-test mutants mutants-guard bench cross control-plane
build: ## Compile every package
	go build work

check: vet unit ## Vet, lint, run the tests that need no API server, check generated files and links: 1 minute
	@$(MAKE) --no-print-directory --keep-going lint/work lint/workflows lint/words lint-changed verify-modules verify-links
	@$(call tool,once) -name generate -stamps build/passed -tests operators sdk bundle olm/templates olm/released tools/reference tools/charts \
		-- $(MAKE) --no-print-directory verify-generated

.PHONY: vet unit
vet:
	@echo 'go vet' && go vet work

# Packages whose tests import testkit start a control plane. Those of operators/database/internal/scripts start database servers.
unit:
	@go test -short $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' work | grep -v 'homeostat/testkit[] /]' | cut -d' ' -f1 | \
		grep -v 'database/internal/scripts$$') | grep -v 'no test files'

test: test/tools $(TESTKIT) ## Test each property once on two shared control planes: 10 minutes on 2 cores, more the first time (ARGS='-run Name')
	@$(call tool,tiers) . $(LEFT_OUT_LIST) >/dev/null # ends here if the list is wrong
	@echo 'Compiling the tests, which takes minutes the first time; then each package has its line' >&2
	@$(call shared-test,test,$$(go list work | grep -vE '/($(subst $() ,|,$(SLOW) $(ON_NODES)))$$' | $(longest-first))) \
		-p $(PACKAGES_AT_ONCE) -short -timeout 40m $(if $(findstring -run,$(ARGS)),,-skip "$(LEFT_OUT)") $(ARGS)
	@$(if $(ARGS),,$(MAKE) --no-print-directory test/nodes-smoke)
	@$(if $(ARGS),,$(call tool,once) -name python -stamps build/passed -tests testkit sdk -- \
		$(MAKE) --no-print-directory test/python ARGS='-k "not exploration and not plugin and not docs and not scaffold"')
	@$(call packaging,-tested origin/HEAD)

test-all: test test-times-check test-rest mutants-guard ## make test, the tests that it leaves out, and the SDK and testkit with -race

# Most packages wait more than they compute.
PACKAGES_AT_ONCE = $$((1 + $$(getconf _NPROCESSORS_ONLN)))

# The go command starts packages in the given order. A long one that starts last would run alone.
longest-first = awk 'NR == FNR { seconds[$$1] = $$2; next } { print seconds[$$1] + 0, $$1 }' tools/testtimes/table.txt - | \
	sort -rn | cut -d' ' -f2

# The modules whose own code has goroutines. The operators' code runs in those of the SDK.
RACED = sdk sdk/e2e testkit

# What test-all adds to test. -timeout is one of a whole package: the tests have limits of their own.
.PHONY: test-left-out test-slow test-on-nodes test-packaging
test-rest: test-left-out test-slow $(RACED:%=test/%) test/python test-on-nodes test-packaging # with sdk/e2e/scaffold if raced
test-left-out: $(TESTKIT)
	@echo 'The tests that make test leaves out' >&2
	@$(call shared-test,left-out,$$($(call tool,tiers) -packages . $(LEFT_OUT_LIST) | grep -vE '^\./($(subst $() ,|,$(RACED) $(SLOW)))(/|$$)')) \
		-short -timeout 40m -run "$(LEFT_OUT)"
test-slow: $(TESTKIT)
	@$(call shared-test,slow,$(patsubst %,./%,$(if $(filter sdk/e2e,$(RACED)),$(filter-out sdk/e2e/%,$(SLOW)),$(SLOW)))) -short -timeout 40m
test-on-nodes: $(TESTKIT)
	@$(call on-nodes,$(MAKE) --no-print-directory test/nodes)
test-packaging:
	@$(call packaging)

# What make test leaves out: packages that start real servers, compile programs or run operators, and a list of tests.
SLOW = $(wildcard operators/*/cmd/demo operators/*/config) operators/database/internal/scripts sdk/e2e/convert \
	$(addprefix sdk/e2e/function/examples/,database immortalcontainer myapp) sdk/e2e/outside \
	sdk/e2e/scaffold testkit/sandbox testkit/cmd/testkit/internal/cli testkit/cluster testkit/internal/environment \
	testkit/mutants/application testkit/mutants/plain
LEFT_OUT = $$($(call tool,tiers) . $(LEFT_OUT_LIST))
LEFT_OUT_LIST = tools/tiers/test-all.txt
# What make test/nodes tests.
ON_NODES = testkit/internal/realnode sdk/e2e/function/realnodes $(wildcard operators/*/internal/realnodes)

test-long: ## make test-all with every fault, fuzzing, and the mutants with 3 seeds: hours
	@$(MAKE) --no-print-directory $(MODULES:%=test/%) LONG=1
	@$(call packaging)
	@$(MAKE) --no-print-directory test/images-base fuzz mutants SEEDS=3

.PHONY: fuzz
fuzz: $(TESTKIT) # each fuzz target for FUZZTIME, 1 minute by default
	@grep -rn '^func Fuzz' --include='*_test.go' $(MODULES) | sed 's|^\(.*\)/[^/]*:[0-9]*:func \(Fuzz[A-Za-z]*\).*|\1 \2|' | sort -u | \
		while read -r dir name; do echo "== $$dir $$name" && $(TESTKIT) exec -- \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),1m) "./$$dir" </dev/null || exit; done

test-times: # writes the table of durations from the last run of make test, which has to be a complete one
	@$(call tool,testtimes) -write -table tools/testtimes/table.txt build/test.json

test-times-check: # not in .ci/run: the machine of CI may be shared
	@$(call tool,testtimes) -table tools/testtimes/table.txt build/test.json

#test/<module>: ## Test one module like make test-all, for example test/sdk (ARGS='-run Name -count 10')
$(MODULES:%=test/%): PACKAGES = ./$(@:test/%=%)/...
$(MODULES:%=test/%): $(TESTKIT)
	$(run-tests)

# Both kinds of control plane are started first, by a program built without -race, which would slow it down. GOGC=800 uses more
# memory, and saves a fifth of the CPU time of the tests and a quarter of the time of linking them.
shared = GOGC="$${GOGC:-800}" $(TESTKIT) exec -- $(TESTKIT) exec --workloads --
shared-test = $(shared) $(gotestsum)
# Runs the tests of the packages $(2). The linters vet; to vet again in each build mode takes minutes the first time.
gotestsum = $(call tool,gotestsum) --format pkgname --format-hide-empty-pkg --jsonfile build/$(1).json $(if $(RERUN),$(rerun)) \
	--packages "$(2)" -- -vet=off -ldflags=-w
# CI sets RERUN: a failed test runs once more by itself, and is reported as flaky if it passes then. See docs/adr/0135.
rerun = --rerun-fails=1 --rerun-fails-run-root-test --rerun-fails-max-failures=100 --rerun-fails-report=build/flaky-$(1).txt

# The race detector needs C. Programs with -race wait a second before they exit unless GORACE disables that.
run-tests = @echo 'Compiling the tests, which takes minutes the first time; then each package has its line' >&2 && \
	unset CGO_ENABLED; GORACE="$${GORACE:-atexit_sleep_ms=0}" $(call shared-test,race,$(or $(PACKAGES),work)) -race -timeout $(if $(LONG),90m,20m) $(if $(LONG),,-short) $(ARGS)

# Packaging tests read other modules. They run if their inputs have changed since they passed here; in make test only if these
# have also changed since the last commit of the main branch, which CI has tested.
packaging = $(foreach t,$(PACKAGING),$(call tool,once) -name $(subst /,-,$(t)) -stamps build/passed $(1) -tests $(t) $(inputs/$(t)) -- \
	$(MAKE) --no-print-directory test/$(t) &&) true
PACKAGING = bundle tools/images tools/charts tools/release olm
inputs/bundle = operators sdk
inputs/tools/images = operators sdk go.work
inputs/tools/charts = operators sdk testkit
inputs/tools/release = operators sdk testkit bundle tools/charts tools/images olm/catalog olm/templates CHANGELOG.md Makefile
inputs/olm = operators sdk testkit bundle tools/images docs/install.md

test/python: $(TESTKIT) $(ENGINE) ## Test the packages for Python, their guides and the operators in Python (ARGS='-k name')
	@if $(PYTHON) -c 'import kubernetes, pytest'; then export TESTKIT=$(abspath $(TESTKIT)) PATH="$(abspath build):$$PATH"; \
		export PYTHONPATH=$(abspath sdk/python):$(abspath testkit/python); for d in $(PYTHON_TESTS); do \
			echo "pytest $$d" && (cd $$d && $(PYTHON) -m pytest -q -p no:cacheprovider -p homeostat_testkit.plugin $(ARGS)) || \
			test $$? = 5 || exit 1; done; \
	else echo 'make test/python: skipped: install the packages pytest and kubernetes for $(PYTHON)' >&2 && test -z "$$CI"; fi

PYTHON_TESTS = testkit/python sdk/python $(wildcard sdk/python/examples/*)

wheel: ## Build the packages for Python into build/python
	@rm -rf build/python && for d in testkit/python sdk/python; do mkdir -p build/python/$$d && \
		cp -r $$d/homeostat* $$d/pyproject.toml $$d/README.md build/python/$$d && \
		$(PYTHON) -m pip wheel -q --no-deps --no-build-isolation -w build/python build/python/$$d || exit; done
	@ls build/python/*.whl

PYTHON = /usr/bin/python3

test/tools:
	@GOWORK=off go -C tools test ./...

test/tools/images test/tools/release test/bundle: test/%: # -count 1 as below
	@GOWORK=off go -C $* test -count 1 -short $(ARGS) ./...

test/nodes: images-base $(TESTKIT) ## Run containers and the operators' pods on real nodes, and the driver of their volumes; needs root on Linux (see docs/real-nodes.md)
	@$(TESTKIT) assets --real >/dev/null
	@TESTKIT_NODES=1 $(call gotestsum,nodes,./testkit/cluster ./testkit/assets/nodes/... $(ON_NODES:%=./%)) \
		-count 1 -p 1 $(if $(LONG),-timeout 90m,-short -timeout 60m) $(ARGS)
	@$(if $(OLM_ON_NODES),TESTKIT_NODES=1 $(OLM) test -tags $(OLM_TAGS) -vet=off -ldflags=-w -count 1 -timeout 30m $(ARGS) $(OLM_ON_NODES))

test/nodes-smoke: $(TESTKIT) # a pod, its network and its volume: what every test on real nodes needs
	@$(call on-nodes,TESTKIT_NODES=1 $(call gotestsum,nodes-smoke,./testkit/internal/realnode) -short -timeout 10m -run '$(SMOKE)')

OLM_ON_NODES = ./e2e/realnodes
SMOKE = ^(TestFetch|TestVolumeIsOnOneNode)$$
# Runs $(1) if this machine can run real nodes; if not, testkit says why, and CI fails.
on-nodes = if $(TESTKIT) assets --real >/dev/null; then $(1); else test -z "$$CI"; fi

test/images-base: ## Build the base images twice and run what is in them; needs root, Debian 12 and its network (ARGS='-run MariaDB')
	@GOWORK=off go -C tools/images test -count 1 -timeout 30m $(or $(ARGS),-run '^TestReal') .

# -count 1: they read the operators' folders, which the go command's test cache does not track. No -race: they start no goroutine of ours.
test/tools/charts: $(TESTKIT) # each chart, installed with Helm
	@$(TESTKIT) assets >/dev/null
	@echo 'Compiling the tests of the charts, which takes minutes the first time' >&2
	@GOWORK=off GOGC="$${GOGC:-400}" go -C tools/charts test -ldflags=-w -count 1 -timeout 20m $(ARGS) ./...

# -count 1: they read folders of other modules. OLM mostly waits, so packages run in parallel, each with one or two control planes.
test/olm: $(TESTKIT) # the catalog, and installations from it
	@for c in $$(sed -n 's/^| v[^ ]* | \([0-9a-f]*\) |$$/\1/p' olm/released/README.md); do git cat-file -e "$$c" 2>/dev/null || \
		echo "Commit $$c is not in this clone (git fetch --unshallow gets it): upgrades begin with today's program" >&2; done
	@$(TESTKIT) assets >/dev/null
	@$(OLM) run -tags $(OLM_TAGS) ./cmd/olm -build -root .. >&2
	@$(OLM) test -tags $(OLM_TAGS) -count 1 -timeout 20m -p 2 $(ARGS) $(or $(PACKAGES),./...)

olm-test: ## Install, upgrade and remove every operator with a real OLM, v0 and v1, from the catalog
	@$(MAKE) --no-print-directory test/olm PACKAGES='./e2e ./e2e/v1'

mutants: ## Count how many of 56 operators with a known bug testkit finds, and its false alarms (SEEDS=1)
	@go run ./testkit/cmd/mutants -seeds $(or $(SEEDS),1) -o build/mutants.json $(ARGS)

mutants-guard: $(TESTKIT) # fails if the plans of make test find less than all plans do
	@echo 'Exploring operators with a known bug, with the plans of make test' && $(shared) go run ./testkit/cmd/mutants -guard

bench: ## Compare the cost of the SDK with common alternatives (N=300 ROUNDS=1 LARGE=1)
	@go run ./sdk/bench -n $(SIZES) -rounds $(or $(ROUNDS),1) -o build/bench.json -svg build/bench.svg $(ARGS)

comma := ,
SIZES = $(or $(N),300$(comma)1000$(comma)3000$(if $(LARGE),$(comma)10000))

control-plane: $(TESTKIT) ## Find or build the programs of the control plane and print their folder
	@$(TESTKIT) assets

cross: ## Compile every package and its tests for macOS on arm64
	GOOS=darwin GOARCH=arm64 go vet work

##@ Change it

.PHONY: generate bundle catalog fmt tidy clean
generate: ## Generate deep copies, CRDs, roles and reference pages from the Go types, and charts from those
	@for m in $(MODULES); do (cd $$m && $(call tool,controller-gen) object paths=./...) || exit; done
	@cd sdk/bench && $(call tool,controller-gen) paths=./work crd output:crd:dir=work/crd
	@cd sdk/e2e/mailbox && $(call tool,controller-gen) paths=. webhook output:webhook:dir=config/webhook
	@for m in $(OPERATORS); do (cd $$m && $(call tool,controller-gen) paths=./... \
		crd output:crd:dir=config/crd rbac:roleName=$${m##*/} output:rbac:dir=config/rbac \
		webhook output:webhook:dir=config/webhook) || exit; done
	@for m in $(patsubst %/api,%,$(wildcard $(OPERATORS:%=%/api))); do (cd $$m && mkdir -p docs && $(call tool,crd-ref-docs) \
		--source-path=api --config=$(CURDIR)/tools/reference/config.yaml --templates-dir=$(CURDIR)/tools/reference \
		--renderer=markdown --template-value=operator=$${m##*/} --output-path=docs/reference.md --log-level=ERROR) || exit; done
	@$(CHARTS) generate $(OPERATORS:%=$(CURDIR)/%)
	@$(MAKE) --no-print-directory bundle catalog

bundle: ## Generate and check the bundle of each operator for OLM; bundle/images.txt names its image
	@$(BUNDLE) render -o $(CURDIR)/bundle -images $(CURDIR)/bundle/images.txt $(BUNDLES:%=$(CURDIR)/%)
	@$(BUNDLE) check $(BUNDLES:operators/%=$(CURDIR)/bundle/%)

catalog: ## Generate the catalog of all bundles for OLM; check upgrade paths and compatibility
	@$(OLM) run -tags $(OLM_TAGS) ./cmd/catalog -o catalog -released released -current ../bundle \
		$(patsubst olm/%,%,$(wildcard olm/templates/*.yaml))

fmt: ## Format the Go files
	@$(GOLANGCI_LINT) fmt

tidy: ## Select one version of each dependency and tidy each go.mod
	go work sync
	@for m in $(MODULES) $(TOOLS) $(PROGRAMS); do GOWORK=off go -C $$m mod tidy || exit; done

clean: ## Delete the build folder (the control plane's cache stays)
	rm -rf build

##@ Check it

.PHONY: verify lint lint-changed lint/work lint/words $(MODULES:%=lint/%) lint/tools lint/tools/charts lint/tools/images lint/tools/release lint/bundle lint/olm lint/scaffold lint/python lint/workflows verify-modules verify-links verify-overlays verify-generated verify-gowork-off vulncheck
verify: generate fmt verify-modules verify-links verify-overlays lint ## Run all checks except the tests; fail if the tree is dirty afterwards
	@changes=$$(git status --short) && if [ -n "$$changes" ]; then git --no-pager diff; echo "$$changes"; \
		echo 'make verify: the tree is dirty: commit what is listed above and run it again' >&2; exit 1; fi

lint: ## Lint every module and the workflows
	@$(MAKE) --no-print-directory --keep-going lint/work $(filter-out lint/tools/lint,$(TOOLS:%=lint/%)) lint/scaffold lint/python lint/workflows lint/words

# Lints the modules outside go.work, and what homeostat new writes, if their files have changed since they passed here.
lint-changed:
	@$(foreach m,$(filter-out tools/lint,$(TOOLS)),$(call lint-once,$(m),$(m)))$(call lint-once,scaffold,sdk/cmd/homeostat)true

lint-once = $(call tool,once) -name lint-$(subst /,-,$(1)) -stamps build/passed -tests $(2) .golangci.yml tools/lint -- \
	$(MAKE) --no-print-directory lint/$(1) &&

PYTHON_OPERATORS = testkit/internal/explore/testdata/python
.PHONY: pictures
pictures: $(TESTKIT) ## Draw the pictures of a demo and of a fault from runs on this machine (needs python3-kubernetes)
	@$(call tool,pictures) cast -o docs/images/demo.svg -title 'make demo OPERATOR=immortalcontainer' -- \
		go run ./operators/immortalcontainer/cmd/demo
	@$(TESTKIT) explore --rbac $(PYTHON_OPERATORS)/already-exists/rbac.yaml --scenario $(PYTHON_OPERATORS)/already-exists/scenario.yaml \
		--only down@edit --report build/fault.json -- /usr/bin/python3 $(PYTHON_OPERATORS)/already-exists/already_exists.py; test $$? = 1
	@$(call tool,pictures) timeline -o docs/images/fault.svg -run down@edit build/fault.json

lint/work: # one run for the modules of go.work: one run for each module analyses their common dependencies again
	@echo 'golangci-lint work' && $(GOLANGCI_LINT) run $(MODULES:%=./%/...)
	@lint=$(GOLANGCI_LINT) && for m in $(MODULES); do \
		(cd $$m && GOWORK=off $$lint run --enable-only gomoddirectives --show-stats=false .) || exit; done # it ignores go.work

#lint/<module>: ## Lint one module, for example lint/sdk
$(MODULES:%=lint/%) lint/tools lint/tools/charts lint/tools/images lint/tools/release lint/bundle: lint/%:
	@echo "golangci-lint $*" && cd $* && GOWORK=off $(GOLANGCI_LINT) run ./...

lint/olm:
	@echo 'golangci-lint olm' && lint=$(GOLANGCI_LINT) && cd olm && GOWORK=off $$lint run --build-tags $(OLM_TAGS) ./...

lint/scaffold: # the output of `homeostat new` and `homeostat add`, by our rules and by its own
	@echo 'golangci-lint what homeostat writes' && lint=$(GOLANGCI_LINT) && dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && \
		go build -o "$$dir/homeostat" ./sdk/cmd/homeostat && \
		for scope in Namespaced Cluster; do \
			"$$dir/homeostat" new web-shop --group shop.example.com --kind WebShop --scope $$scope --dir "$$dir/$$scope" \
				--homeostat $(CURDIR) --module github.com/homeostat-dev/homeostat/operators/web-shop >/dev/null && \
			(cd "$$dir/$$scope" && ../homeostat add webhook >/dev/null && ../homeostat add kind Coupon --scope $$scope >/dev/null && \
				../homeostat add version v1beta1 --kind WebShop >/dev/null && \
				$$lint run ./... && $$lint run --config $(CURDIR)/.golangci.yml ./...) || exit; done

lint/python: # ruff and mypy for the packages, the tests, and the output of `homeostat new --language python`
	@echo 'ruff, mypy' && dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && \
		go run ./sdk/cmd/homeostat new web-shop --language python --group shop.example.com --kind WebShop --dir "$$dir/web-shop" \
			--homeostat $(CURDIR) >/dev/null && \
		if npm install --prefix tools/lint/python --silent >/dev/null 2>&1; then \
			node tools/lint/python/ruff.js $$(git ls-files '*.py') "$$dir"/web-shop/*.py || exit; \
		else echo 'make lint/python: ruff is skipped: npm cannot install it' >&2; fi && \
		if command -v mypy >/dev/null; then for d in sdk/python testkit/python; do \
			(cd $$d && mypy homeostat* tests) || exit; done; \
		else echo 'make lint/python: mypy is skipped: it is not installed' >&2; fi

lint/words: # persons in texts, directives in Go files, and the subjects of the commits since the rules exist
	@echo wordcheck && $(call tool,wordcheck) -since $(RULES_SINCE) .

RULES_SINCE = b4465ed

lint/workflows:
	@echo actionlint && $(call tool,actionlint)

verify-modules: ## Check that the go.mod files agree with each other and with the imports
	@$(call tool,modcheck) .
	@for m in $(MODULES) $(TOOLS) $(PROGRAMS); do echo "go mod tidy -diff in $$m" && GOWORK=off go -C $$m mod tidy -diff || exit; done

verify-links: ## Check the relative links of the Markdown files
	@$(call tool,linkcheck) .

verify-overlays: # the overlay for cert-manager, which no test installs
	@echo 'kustomize build' && $(call tool,kustomize) build sdk/e2e/mailbox/config/cert-manager >/dev/null

verify-generated: # fails if make generate changes a file
	@before=$$(git diff | sha256sum) && $(MAKE) --no-print-directory generate && [ "$$before" = "$$(git diff | sha256sum)" ] || \
		{ echo 'Generated files were out of date; they are written now' >&2; exit 1; }

vulncheck: ## Look for known vulnerabilities in what the released modules call; needs the network (nightly)
	@check=$(call tool,govulncheck) && for m in $(RELEASED); do echo "govulncheck $$m" && (cd $$m && GOWORK=off "$$check" ./...) || exit; done

verify-gowork-off: ## Compile each module alone, as its importers do
	@for m in $(MODULES); do echo "GOWORK=off $$m" && GOWORK=off go -C $$m build ./... || exit; done

##@ Ship it (OPERATOR=immortalcontainer, CONFIG=default, IMAGE=registry.invalid/homeostat/immortalcontainer:dev)

.PHONY: images images-base docker-build deploy undeploy undeploy-all helm-package release-dry-run release release-page
images: ## Build the image of each operator, for amd64 and arm64, without Docker (VERSION=1.2.3; PUSH=registry/team/: push it)
	@$(if $(filter command,$(origin OPERATOR)),$(known))
	@$(IMAGES) $(if $(PUSH),push -to '$(PUSH)',build) -o $(CURDIR)/build/images $(if $(VERSION),-version '$(VERSION)') \
		$(if $(filter command,$(origin OPERATOR)),$(CURDIR)/operators/$(OPERATOR),$(OPERATORS:%=$(CURDIR)/%))

images-base: ## Build images of database servers, nginx, Python and busybox from Debian packages, without Docker, in build/images-base
	@$(IMAGES) base -o $(CURDIR)/build/images-base

docker-build: ## Build the operator's image with Docker
	@$(known)
	docker build --tag $(IMAGE) --file operators/$(OPERATOR)/Dockerfile .

deploy: ## Install the operator in kubectl's current cluster
	@$(known)
	@set -o pipefail; $(manifests) | $(KUBECTL) apply --server-side --filename -

undeploy: ## Remove the operator, its roles and its namespace; its objects and their children stay
	@$(known)
	@set -o pipefail; $(manifests) | $(call tool,kustomize) cfg grep --annotate=false --invert-match $(CRD) | \
		$(KUBECTL) delete --ignore-not-found --filename -

undeploy-all: ## Remove all objects of the operator's kinds, their CRDs, then the operator
	@$(known)
	@echo 'If this hangs, objects wait for the operator, and it does not run: see operators/$(OPERATOR)/README.md' >&2
	@set -o pipefail; $(manifests) | $(call tool,kustomize) cfg grep --annotate=false $(CRD) | \
		$(KUBECTL) delete --ignore-not-found --filename -
	@$(MAKE) --no-print-directory undeploy

helm-package: ## Package the Helm charts in build/charts (VERSION=1.2.3: of charts and images; PUSH=registry/team/charts/: push them)
	@files=$$($(CHARTS) package $(if $(VERSION),-version '$(VERSION)') $(if $(IMAGES_FROM),-images '$(IMAGES_FROM)') \
		-umbrella homeostat -o $(CURDIR)/build/charts $(OPERATORS:%=$(CURDIR)/%)) && echo "$$files" $(if $(PUSH),&& \
		$(CHARTS) push -to '$(PUSH)' $$files)

release-dry-run: ## Build a whole release in build/release without publishing it (VERSION=1.2.3; PUSH=registry/team/)
	@$(RELEASE) rehearse -version '$(VERSION)' -o $(CURDIR)/build/release -root $(CURDIR) $(if $(PUSH),-to '$(PUSH)') \
		-modules '$(RELEASED)' -operators '$(OPERATORS)'

release: ## Publish the result of release-dry-run: images, charts, and then the tags (PUSH=registry/team/; REMOTE=origin)
	@$(RELEASE) publish -o $(CURDIR)/build/release -root $(CURDIR) -to '$(PUSH)' -remote '$(or $(REMOTE),origin)'

release-page: # on the forge, with the files for single downloads; needs its command gh, and may be repeated
	@$(RELEASE) page -o $(CURDIR)/build/release -root $(CURDIR)

# known ends a recipe with a message if the operator or config does not exist.
known = $(if $(filter operators/$(OPERATOR),$(OPERATORS)),,$(error \
	There is no operator $(OPERATOR); OPERATOR is one of: $(notdir $(OPERATORS))))$(if \
	$(wildcard operators/$(OPERATOR)/config/$(CONFIG)/kustomization.yaml),,$(error \
	There is no operators/$(OPERATOR)/config/$(CONFIG); CONFIG is one of: $(CONFIGS)))
CONFIGS = $(patsubst operators/$(OPERATOR)/config/%/kustomization.yaml,%,$(shell \
	grep -l -e ' - \.\./manager$$' -e ' - \.\./default$$' operators/$(OPERATOR)/config/*/kustomization.yaml))

manifests = $(call tool,kustomize) build operators/$(OPERATOR)/config/$(CONFIG) | \
	sed 's|image: registry.invalid/homeostat/$(OPERATOR):dev$$|image: $(IMAGE)|'
CRD = kind=CustomResourceDefinition
