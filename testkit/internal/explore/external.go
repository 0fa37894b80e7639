package explore

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/external"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// externals records the requests of the operator to the external services of a run. It is safe for concurrent use.
type externals struct {
	run *run

	mu       sync.Mutex
	services []*external.Service
	initial  []any // the state of each service before the first step
	sent     []exchange
	counts   map[string]int // requests of each group so far
}

// exchange is one request of a process.
type exchange struct {
	baseline.Exchange

	process int
}

func (es *externals) add(s *external.Service) {
	es.mu.Lock()
	es.services = append(es.services, s)
	es.initial = append(es.initial, es.stateOf(s))
	number := len(es.services)
	es.mu.Unlock()
	s.SetHook(func(x *external.Exchange) { es.handle(number, x) })
}

// handle records a request, and injects the plan's fault. A killed process gets no answer.
func (es *externals) handle(service int, x *external.Exchange) {
	r := es.run
	process, killed := r.procs.last()
	if process == 0 {
		x.Lost = killed // else it is a request of the setup
		return
	}
	defer r.operator.Pend()()
	e := baseline.Exchange{
		Service: service, Method: x.Request.Method, Path: es.canonicalPath(x.Request.URL.Path), Step: r.operator.Step(),
	}
	es.mu.Lock()
	es.counts[e.Group()]++
	e.Number = es.counts[e.Group()]
	es.sent = append(es.sent, exchange{e, process})
	es.mu.Unlock()
	if p := r.plan.ForExchange(e.ID()); p != nil {
		p.OnExchange(controls{r, p}, process, x)
	}
	if !x.Lost {
		x.Serve()
	}
	r.addEntry(entryOf(e, x))
}

func entryOf(e baseline.Exchange, x *external.Exchange) report.Entry {
	outcome := "the connection is broken"
	if !x.Lost {
		outcome = strconv.Itoa(x.Code())
	}
	return report.Entry{
		Lane: report.Operator, Bad: x.Lost || x.Code() >= http.StatusBadRequest,
		Text: fmt.Sprintf("%s %s to the %s -> %s", e.Method, x.Request.URL.Path, e.Name(), outcome),
	}
}

// generatedPart matches the part of a path that a service generates: a number, a UUID or another hexadecimal number.
var generatedPart = regexp.MustCompile(`/(\d+|[0-9a-fA-F]{8}[0-9a-fA-F-]*)(/|$)`)

// namedUID matches the canonical form of a UID, which has the name of its object.
var namedUID = regexp.MustCompile(`\$UID\([^)]*\)`)

// canonicalPath returns a path that is the same in every run.
func (es *externals) canonicalPath(path string) string {
	path = es.run.names(es.run.log.Changes()).Text(path)
	path = namedUID.ReplaceAllString(path, "$$UID")
	path = generatedPart.ReplaceAllString(path, "/$$ID$2")
	if es.run.baseline != nil {
		path = es.run.baseline.Paths.Canonical(path)
	}
	return path
}

// align sets the number of requests of each group to the baseline's before a step, as view.alignTargets does.
func (es *externals) align(step int) {
	if !es.run.plan.IsCombined() {
		return
	}
	es.mu.Lock()
	defer es.mu.Unlock()
	clear(es.counts)
	for _, e := range es.run.baseline.Exchanges {
		if e.Step <= step {
			es.counts[e.Group()] = max(es.counts[e.Group()], e.Number)
		}
	}
}

// exchanges returns the requests in the order of sending, without those of a second process of a baseline run. See
// view.targets.
func (es *externals) exchanges() []baseline.Exchange {
	es.mu.Lock()
	defer es.mu.Unlock()
	var all []baseline.Exchange
	for _, e := range es.sent {
		if e.process == 1 || e.Step > len(es.run.x.Steps) {
			all = append(all, e.Exchange)
		}
	}
	return all
}

// addExchanges adds the requests to external services that all baseline runs have.
func addExchanges(base *baseline.Baseline, runs []*run) {
	all, paths := make([][]baseline.Exchange, len(runs)), make([][]string, len(runs))
	for i, r := range runs {
		all[i] = r.externals.exchanges()
		for _, e := range all[i] {
			paths[i] = append(paths[i], e.Path)
		}
	}
	base.Paths = baseline.LearnPaths(paths...)
	ids, groups := map[string]int{}, map[string]int{} // the number of runs that have it
	for _, exchanges := range all {
		counts := map[string]int{}
		for i := range exchanges {
			e := &exchanges[i]
			e.Path = base.Paths.Canonical(e.Path)
			counts[e.Group()]++
			e.Number = counts[e.Group()]
			ids[e.ID()]++
		}
		for group := range counts {
			groups[group]++
		}
	}
	base.Exchanges = slices.DeleteFunc(all[0], func(e baseline.Exchange) bool { return ids[e.ID()] < len(runs) })
	for group, n := range groups {
		if n < len(runs) {
			base.UnstableExchanges = append(base.UnstableExchanges, group)
		}
	}
	slices.Sort(base.UnstableExchanges)
}

// addTo adds the states of the services to a state of the namespace.
func (es *externals) addTo(s state.State, names *state.NameMap) {
	es.mu.Lock()
	services := slices.Clone(es.services)
	es.mu.Unlock()
	for i, service := range services {
		if service.State == nil {
			continue
		}
		value, err := names.Value(service.State())
		if err != nil {
			es.run.abort(fmt.Errorf("comparing external services: %w", err))
		}
		s[fmt.Sprintf("%s%d", externalPrefix, i+1)] = map[string]any{"state": value}
	}
}

// last returns the number of the newest process, or 0 and whether all were killed: the next one has not started yet. A
// request to an external service does not tell its process.
func (ps *processes) last() (number int, killed bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for number := ps.started; number > 0; number-- {
		if !ps.killed[number] {
			return number, false
		}
	}
	return 0, ps.started > 0
}

// alignTargets is view.alignTargets for all requests.
func (r *run) alignTargets(step int) {
	r.view.alignTargets(step)
	r.externals.align(step)
}

// externalPrefix begins the names of the states of external services, which are no objects.
const externalPrefix = "external/"

func isExternal(name string) bool { return strings.HasPrefix(name, externalPrefix) }
