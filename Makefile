# Verbs of the monorepo; `make help` lists them. Needs Go, git, make and a C compiler; what else it uses, it builds.
SHELL := bash
.DEFAULT_GOAL := help
.NOTPARALLEL: # the go command and the tests are parallel inside; the verbs run in the order written

# go.work says which modules there are. The tools stay out of it (docs/adr/0004).
MODULES := $(shell go work edit -json go.work | sed -n 's|.*"DiskPath": "\./\(.*\)".*|\1|p')
TOOLS := tools tools/lint tools/charts tools/images bundle
OPERATORS := $(sort $(filter operators/%,$(MODULES)))
BUNDLES := $(patsubst %/config/manifests,%,$(wildcard $(OPERATORS:%=%/config/manifests)))

# tool NAME: the path of a pinned tool. The go command builds it on first use and keeps it in its cache.
tool = $$(GOWORK=off go -C $(CURDIR)/tools tool -n $(1))
GOLANGCI_LINT = $$(GOWORK=off go -C $(CURDIR)/tools/lint tool -n golangci-lint)
CHARTS = GOWORK=off go -C tools/charts run .
IMAGES = GOWORK=off go -C tools/images run .
BUNDLE = GOWORK=off go -C bundle run ./cmd/bundle
TESTKIT = build/testkit

# What the targets under "Ship it" work on, and with.
OPERATOR ?= immortalcontainer
CONFIG ?= default
IMAGE ?= homeostat/$(OPERATOR):dev
KUBECTL ?= $$(command -v kubectl || echo "$$(go run ./testkit/cmd/testkit assets)/kubectl")

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^#?[a-z][a-zA-Z\/<>-]*:.*## / { sub(/^#/, ""); printf "  %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Try it

.PHONY: up down kubeconfig demo $(TESTKIT)
$(TESTKIT): # always: the go command knows best whether there is something to do
	@test -e $@ || echo 'Compiling testkit and what it builds on: 3 to 4 minutes on 2 cores, once' >&2
	@go build -o $@ ./testkit/cmd/testkit

# CONTEXT has to come from the command line: what happens to be in the environment is no consent to use somebody's cluster.
up: $(TESTKIT) ## Run a cluster with every operator and its sample until Ctrl-C (DETACH=1: until make down; CONTEXT=mine: in yours)
	@$(TESTKIT) up $(if $(DETACH),--detach) $(if $(filter command,$(origin CONTEXT)),--context '$(CONTEXT)') $(OPERATORS)

down: $(TESTKIT) ## Stop what `make up DETACH=1` left running
	@$(TESTKIT) down

kubeconfig: $(TESTKIT) ## Print the path of the running cluster's kubeconfig
	@$(TESTKIT) kubeconfig

demo: ## Tell the story of each operator once, on a cluster of its own (OPERATOR=myapp: of that one)
	@for o in $(DEMOS); do echo "== $$o (compiling its story takes minutes the first time)" && \
		go run ./operators/$$o/cmd/demo || exit; done

STORIES = $(patsubst operators/%/cmd/demo,%,$(wildcard $(OPERATORS:%=%/cmd/demo)))
DEMOS = $(if $(filter file,$(origin OPERATOR)),$(STORIES),$(or $(filter $(OPERATOR),$(STORIES)),$(error \
	There is no story of $(OPERATOR); OPERATOR is one of: $(STORIES))))

##@ Build and test

.PHONY: build test $(MODULES:%=test/%) test/tools test/tools/charts test/tools/images test/bundle mutants bench cross control-plane
build: ## Compile every package
	go build work

test: PACKAGES = work
test: test/tools $(TESTKIT) ## Test every module on two shared control planes (LONG=1: with every fault; ARGS='-run Name -count 10')
	$(run-tests)
	@$(MAKE) --no-print-directory test/tools/charts

#test/<module>: ## Test one module, for example test/sdk
$(MODULES:%=test/%): PACKAGES = ./$(@:test/%=%)/...
$(MODULES:%=test/%): $(TESTKIT)
	$(run-tests)

# Both kinds of control plane that tests ask for are started first, by a program that is not slowed down by -race, whose
# processes also wait a second before they end if GORACE does not say otherwise. Collecting garbage a quarter as often takes
# some memory, and a tenth of the time off the tests and a quarter off linking them.
run-tests = @echo 'Compiling the tests, which takes minutes the first time; then each package has its line' >&2 && GORACE="$${GORACE:-atexit_sleep_ms=0}" GOGC="$${GOGC:-400}" $(TESTKIT) exec -- $(TESTKIT) exec --workloads -- $(call tool,gotestsum) --format pkgname --format-hide-empty-pkg -- -race -ldflags=-w -timeout $(if $(LONG),90m,20m) $(if $(LONG),,-short) $(ARGS) $(PACKAGES)

test/tools: test/tools/images test/bundle
	@GOWORK=off go -C tools test ./...

test/tools/images test/bundle: test/%: # -count 1 as below
	@GOWORK=off go -C $* test -count 1 $(ARGS) ./...

# They read the operators' folders, of which the go command's cache of results knows nothing, and start no goroutine of ours.
test/tools/charts: $(TESTKIT) # each chart, installed with Helm
	@$(TESTKIT) assets >/dev/null
	@echo 'Compiling the tests of the charts, which takes minutes the first time' >&2
	@GOWORK=off GOGC="$${GOGC:-400}" go -C tools/charts test -ldflags=-w -count 1 -timeout 20m $(ARGS) ./...

mutants: ## Say how many of 24 operators with a known bug testkit finds, and how often it is wrong (SEEDS=1)
	@go run ./testkit/cmd/mutants -seeds $(or $(SEEDS),1) -o build/mutants.json $(ARGS)

bench: ## Measure what the SDK costs beside what people would write instead (N=300 ROUNDS=1 LARGE=1)
	@go run ./sdk/bench -n $(SIZES) -rounds $(or $(ROUNDS),1) -o build/bench.json -svg build/bench.svg $(ARGS)

comma := ,
SIZES = $(or $(N),300$(comma)1000$(comma)3000$(if $(LARGE),$(comma)10000))

control-plane: $(TESTKIT) ## Find or build the programs of the control plane and print their folder
	@$(TESTKIT) assets

cross: ## Compile every package and its tests for macOS on arm64
	GOOS=darwin GOARCH=arm64 go vet work

##@ Change it

.PHONY: generate bundle fmt tidy clean
generate: ## Write deep copies, CRDs, roles and reference pages from the Go types, and charts from those
	@for m in $(MODULES); do (cd $$m && $(call tool,controller-gen) object paths=./...) || exit; done
	@cd sdk/bench && $(call tool,controller-gen) paths=./work crd output:crd:dir=work/crd
	@for m in $(OPERATORS); do (cd $$m && $(call tool,controller-gen) paths=./... \
		crd output:crd:dir=config/crd rbac:roleName=$${m##*/} output:rbac:dir=config/rbac) || exit; done
	@for m in $(patsubst %/api,%,$(wildcard $(OPERATORS:%=%/api))); do (cd $$m && mkdir -p docs && $(call tool,crd-ref-docs) \
		--source-path=api --config=$(CURDIR)/tools/reference/config.yaml --templates-dir=$(CURDIR)/tools/reference \
		--renderer=markdown --template-value=operator=$${m##*/} --output-path=docs/reference.md --log-level=ERROR) || exit; done
	@$(CHARTS) generate $(OPERATORS:%=$(CURDIR)/%)
	@$(MAKE) --no-print-directory bundle

bundle: ## Write the bundle of each operator for OLM, and check it; bundle/images.txt says which image it runs
	@$(BUNDLE) render -o $(CURDIR)/bundle -images $(CURDIR)/bundle/images.txt $(BUNDLES:%=$(CURDIR)/%)
	@$(BUNDLE) check $(BUNDLES:operators/%=$(CURDIR)/bundle/%)

fmt: ## Format the Go files
	@$(GOLANGCI_LINT) fmt

tidy: ## Settle on one version of each dependency and tidy each go.mod
	go work sync
	@for m in $(MODULES) $(TOOLS); do GOWORK=off go -C $$m mod tidy || exit; done

clean: ## Delete what was built here (the control plane's cache stays)
	rm -rf build

##@ Check it

.PHONY: verify lint $(MODULES:%=lint/%) lint/tools lint/tools/charts lint/tools/images lint/bundle lint/scaffold lint/workflows verify-modules verify-links verify-gowork-off
verify: generate fmt verify-modules verify-links lint ## All checks but the tests; fails if they leave the tree dirty
	@changes=$$(git status --short) && if [ -n "$$changes" ]; then git --no-pager diff; echo "$$changes"; \
		echo 'make verify: the tree is dirty: commit what is listed above and run it again' >&2; exit 1; fi

lint: ## Lint every module and the workflows
	@$(MAKE) --no-print-directory --keep-going $(MODULES:%=lint/%) $(filter-out lint/tools/lint,$(TOOLS:%=lint/%)) lint/scaffold lint/workflows

#lint/<module>: ## Lint one module, for example lint/sdk
$(MODULES:%=lint/%) lint/tools lint/tools/charts lint/tools/images lint/bundle: lint/%:
	@echo "golangci-lint $*" && cd $* && GOWORK=off $(GOLANGCI_LINT) run ./...

lint/scaffold: # what `homeostat new` writes, by our rules and by those that it writes beside it
	@echo 'golangci-lint what homeostat new writes' && dir=$$(mktemp -d) && trap 'rm -r "$$dir"' EXIT && \
		go run ./sdk/cmd/homeostat new web-shop --group shop.example.com --kind WebShop --dir "$$dir/web-shop" \
			--module github.com/homeostat-dev/homeostat/operators/web-shop >/dev/null && cd "$$dir/web-shop" && \
		GOWORK=off $(GOLANGCI_LINT) run ./... && GOWORK=off $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...

lint/workflows:
	@echo actionlint && $(call tool,actionlint)

verify-modules: ## Hold the go.mod files to each other and to the imports
	@$(call tool,modcheck) .
	@for m in $(MODULES) $(TOOLS); do echo "go mod tidy -diff in $$m" && GOWORK=off go -C $$m mod tidy -diff || exit; done

verify-links: ## Follow the relative links of the Markdown files
	@$(call tool,linkcheck) .

verify-gowork-off: ## Compile and vet each module alone, as those who import it will
	@for m in $(MODULES); do echo "GOWORK=off $$m" && GOWORK=off go -C $$m build ./... && \
		GOWORK=off go -C $$m vet ./... || exit; done

##@ Ship it (OPERATOR=immortalcontainer, CONFIG=default, IMAGE=homeostat/immortalcontainer:dev)

.PHONY: images docker-build deploy undeploy undeploy-all helm-package
images: ## Write the image of each operator, for amd64 and arm64, without Docker (VERSION=1.2.3; PUSH=registry/team/: push it)
	@$(if $(filter command,$(origin OPERATOR)),$(known))
	@$(IMAGES) $(if $(PUSH),push -to '$(PUSH)',build) -o $(CURDIR)/build/images $(if $(VERSION),-version '$(VERSION)') \
		$(if $(filter command,$(origin OPERATOR)),$(CURDIR)/operators/$(OPERATOR),$(OPERATORS:%=$(CURDIR)/%))

docker-build: ## Build the operator's image
	@$(known)
	docker build --tag $(IMAGE) --file operators/$(OPERATOR)/Dockerfile .

deploy: ## Install the operator in the cluster that kubectl talks to
	@$(known)
	@set -o pipefail; $(manifests) | $(KUBECTL) apply --server-side --filename -

undeploy: ## Remove the operator, its roles and its namespace; its objects and what they own stay
	@$(known)
	@set -o pipefail; $(manifests) | $(call tool,kustomize) cfg grep --annotate=false --invert-match $(CRD) | \
		$(KUBECTL) delete --ignore-not-found --filename -

undeploy-all: ## Remove all objects of the operator's kinds, their CRDs, then the operator
	@$(known)
	@echo 'If this hangs, objects wait for the operator, and it does not run: see operators/$(OPERATOR)/README.md' >&2
	@set -o pipefail; $(manifests) | $(call tool,kustomize) cfg grep --annotate=false $(CRD) | \
		$(KUBECTL) delete --ignore-not-found --filename -
	@$(MAKE) --no-print-directory undeploy

helm-package: ## Write the Helm charts of all operators to build/charts (VERSION=1.2.3: of charts and images)
	@$(CHARTS) package $(if $(VERSION),-version $(VERSION)) -o $(CURDIR)/build/charts $(OPERATORS:%=$(CURDIR)/%)

# known ends a recipe with a sentence if there is no such operator or config.
known = $(if $(filter operators/$(OPERATOR),$(OPERATORS)),,$(error \
	There is no operator $(OPERATOR); OPERATOR is one of: $(notdir $(OPERATORS))))$(if \
	$(wildcard operators/$(OPERATOR)/config/$(CONFIG)/kustomization.yaml),,$(error \
	There is no operators/$(OPERATOR)/config/$(CONFIG); CONFIG is one of: $(CONFIGS)))
CONFIGS = $(patsubst operators/$(OPERATOR)/config/%/kustomization.yaml,%,$(shell \
	grep -l -e ' - \.\./manager$$' -e ' - \.\./default$$' operators/$(OPERATOR)/config/*/kustomization.yaml))

manifests = $(call tool,kustomize) build operators/$(OPERATOR)/config/$(CONFIG) | \
	sed 's|image: homeostat/$(OPERATOR):dev$$|image: $(IMAGE)|'
CRD = kind=CustomResourceDefinition
