package explore

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// A Session is an operator at work in a namespace of its own, without a fault, while its user decides from step to step what
// happens to it. It is for explorations of what users do instead of what goes wrong. It must not be used concurrently.
type Session struct {
	// StatusObserved reports whether what the operator says is about the last step. It need not be: after a while of silence it does
	// not matter. Optional.
	StatusObserved func() bool

	run     *run
	x       *Explorer       // of this session alone: its steps are those that were made so far
	allowed map[string]bool // what the operator may do, as far as that was asked, by rule
}

// Open starts a session, in which there is nothing yet but what Setup made and the operator. An error is one of the
// machinery; what the operator does wrong is told by Violations. Close it in either case.
func (x *Explorer) Open(ctx context.Context, name string) (*Session, error) {
	own := *x
	own.Steps = nil
	own.Without = append(slices.Clone(own.Without), oracleRights) // what the roles grant too much of is the same each time
	s := &Session{x: &own, allowed: map[string]bool{}}
	s.run = own.newRun(ctx, &plan{name: name, fault: "none", alwaysApplies: true, skipCounts: true, gracefulStop: true}, nil)
	r := s.run
	r.tb.runIsolated(func() {
		r.k = testkit.New(r.tb, testkit.WithClientTransport(func(next http.RoundTripper) http.RoundTripper {
			return r.user.Transport(0, next)
		}))
		r.k.Timeout = own.Patience
		r.log = own.recorder.Follow(r.k.Namespace)
		if own.Setup != nil {
			own.Setup(r.k)
			r.await(r.historyShowsWrites)
		}
		r.initial = r.log.Changes()
		r.operator.Enter(0)
		r.start()
	})
	return s, s.err()
}

// err is what keeps the session from going on.
func (s *Session) err() error {
	if s.run.infraErr != nil {
		return s.run.infraErr
	}
	if failures := s.run.tb.reportedFailures(); len(failures) > 0 {
		return fmt.Errorf("in the namespace for %s: %s", s.run.plan.name, failures[0])
	}
	if err := s.run.tb.ctx.Err(); err != nil {
		return fmt.Errorf("in the namespace for %s: %w", s.run.plan.name, err)
	}
	return nil
}

// K is what acts in the session's namespace as the user. Its methods that fail a test must only be called within Do.
func (s *Session) K() *testkit.K { return s.run.k }

// Do makes a step.
func (s *Session) Do(name string, step func(k *testkit.K)) error {
	s.x.Steps = append(s.x.Steps, Step{Name: name, Do: step})
	s.run.operator.Enter(len(s.x.Steps))
	s.run.logStep(name)
	s.run.tb.runIsolated(func() { step(s.run.k) })
	s.run.operator.Touch()
	return s.err()
}

// WaitIdle waits until for the given time the operator has written nothing, heard of nothing and nothing has changed, and its
// status is true. It returns what is wrong if that does not come to pass within the explorer's patience. The patience is
// longer for an operator that has not written the same thing over and over: the machine may be busy.
//
// A request that the server refused is one that the operator may repeat until the user corrects what leads to it. After one,
// any pause is short enough for a short one, and what the status says does not matter.
func (s *Session) WaitIdle(quiet time.Duration) (*report.Violation, error) {
	return s.waitIdle(quiet, func() bool { return true })
}

// waitOperatorIdle is Rest, if done is true, too. That it does not become true is not wrong in itself.
func (s *Session) waitIdle(quiet time.Duration, done func() bool) (*report.Violation, error) {
	began := time.Now()
	for {
		refused, forbidden := s.rejections()
		rests, falseStatus := s.isIdle(quiet, refused || forbidden)
		if err := s.err(); err != nil || rests && (refused || falseStatus == nil) && done() {
			return nil, err
		}
		switch waited := time.Since(began); {
		case falseStatus != nil && len(s.Violations()) > 0:
			return nil, nil //nolint:nilnil // there is worse already
		case waited < s.x.Patience:
		case refused || rests: // that it tries again, or is not done, is for the caller to judge
			return falseStatus, nil
		case waited > maxTimeouts*s.x.Patience, s.repeatsWrites():
			return s.neverIdle(), nil
		}
		s.pollDelay()
	}
}

// pollDelay is the time between two looks.
func (s *Session) pollDelay() {
	select {
	case <-time.After(stepQuietPeriod / 3): //nolint:mnd // often enough
	case <-s.run.tb.ctx.Done():
	}
}

// maxTimeouts is how many times the patience an operator gets if it does not write the same thing over and over.
const maxTimeouts = 6

// isIdle reports whether nothing has happened for a while and, if so, what the status says that is not true.
func (s *Session) isIdle(quiet time.Duration, trouble bool) (bool, *report.Violation) {
	idle := s.idleFor
	if trouble && quiet <= finalQuietPeriod {
		quiet, idle = stepQuietPeriod, s.quietFor
	}
	if !s.run.hasBeenIdle(s.run.k.Context(), quiet, idle) {
		return false, nil
	}
	return true, s.run.checkStatus(len(s.x.Steps) - 1)
}

// neverIdle says that the operator does not come to rest.
func (s *Session) neverIdle() *report.Violation {
	return &report.Violation{
		Oracle: oracleAtRest, Detail: s.run.lastWrites(8), //nolint:mnd // enough to see what repeats itself
		Message: fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			s.run.after(len(s.x.Steps)-1), s.x.Patience),
	}
}

// maxRepeats reports whether in the last step the operator has written something over and over, and lately.
func (s *Session) repeatsWrites() bool {
	const often = 5
	times := map[string]int{}
	most := 0
	var last time.Duration
	for _, c := range s.run.operator.Calls() {
		if c.Step == len(s.x.Steps) && c.Writes() && c.Resource != "events" && !intercept.IsLease(c.Request) {
			what := c.Verb + " " + c.Resource + "/" + c.Subresource + " " + c.Name
			times[what]++
			most, last = max(most, times[what]), c.Began
		}
	}
	ago := time.Since(s.run.operator.Began()) - last
	return most >= often && ago < s.x.Patience/2
}

// rejections reports whether in the last step requests were refused because of what they say, or for want of a right.
func (s *Session) rejections() (refused, forbidden bool) {
	for _, c := range s.run.operator.Calls() {
		forbidden = forbidden || c.Step == len(s.x.Steps) && c.Reached && c.Code == http.StatusForbidden
	}
	return len(s.Rejected()) > 0, forbidden
}

// quietFor is for how long nothing has happened.
func (s *Session) quietFor() (time.Duration, bool) {
	busy, idle := s.run.operator.Busy()
	return min(idle, s.run.sinceLastChange()), !busy
}

// idleFor is for how long nothing has happened. While the operator has not heard of everything that has, or has not answered,
// that only counts after a while: it may have asked to be told of some objects of a kind only.
func (s *Session) idleFor() (time.Duration, bool) {
	const deaf = time.Second
	idle, ok := s.quietFor()
	return idle, ok && (idle >= deaf || s.observedLatest() && (s.StatusObserved == nil || s.StatusObserved()))
}

// firstRequest reports whether the operator was told the last state of each object that has changed, if it watches the kind.
func (s *Session) observedLatest() bool {
	r := s.run
	told := map[intercept.Frame]bool{}
	kinds := map[intercept.Kind]bool{}
	for _, f := range r.operator.Frames() {
		told[intercept.Frame{Kind: f.Kind, Name: f.Name, Version: f.Version}] = true
	}
	for number := range r.running() {
		for _, kind := range r.operator.Opened(number) {
			kinds[kind] = true
		}
	}
	last := map[types.UID]history.Change{}
	for _, c := range r.log.Changes()[len(r.initial):] {
		last[c.Object.GetUID()] = c
	}
	for _, c := range last {
		f := intercept.Frame{Kind: kindOf(c), Name: c.Object.GetName(), Version: c.Object.GetResourceVersion()}
		if kinds[f.Kind] && !told[f] {
			return false
		}
	}
	return true
}

// Rejected are the operator's requests of the last step that the server refused because of what they say.
func (s *Session) Rejected() []intercept.Call {
	var all []intercept.Call
	for _, c := range s.run.operator.Calls() {
		if c.Step != len(s.x.Steps) || !c.Reached || !c.Writes() || s.run.isStale(c) {
			continue
		}
		switch c.Code {
		case http.StatusForbidden:
			if s.isAllowed(c) {
				all = append(all, c)
			}
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			all = append(all, c)
		}
	}
	return all
}

// isAllowed reports whether the operator's roles allow what was forbidden, so that it was admission that forbade it: a pod, for
// example, whose ServiceAccount does not exist.
func (s *Session) isAllowed(c intercept.Call) bool {
	if oracle.IsTerminatingNamespace(c) {
		return true
	}
	id := rule(c) + " " + c.Name
	if known, ok := s.allowed[id]; ok {
		return known
	}
	s.run.mu.Lock()
	who := s.run.identity
	s.run.mu.Unlock()
	verb := c.Verb
	if verb == "apply" {
		verb = "patch"
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: c.Namespace, Verb: verb, Group: c.Group, Resource: c.Resource, Subresource: c.Subresource, Name: c.Name,
		},
	}}
	reviews := authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
	if who == nil || who.createReview(s.run.k.Context(), reviews, review) != nil {
		return false // whoever cannot be asked is taken at the server's word
	}
	s.allowed[id] = review.Status.Allowed
	return review.Status.Allowed
}

// lacksPermission reports whether a violation is about a right that the operator lacks.
func (s *Session) lacksPermission(v report.Violation) bool {
	return slices.ContainsFunc(s.run.operator.Calls(), func(c intercept.Call) bool {
		return c.Reached && c.Code == http.StatusForbidden && strings.HasSuffix(v.Message, ": "+rule(c)) && !s.isAllowed(c)
	})
}

// State is what the namespace amounts to now. Of a status it has what the conditions say, because the rest may rightly
// tell of what happened.
func (s *Session) State() state.State { return s.run.state() }

// Current are the objects that exist.
func (s *Session) Current() []history.Change { return s.run.log.Current() }

// Changed is closed when something has changed in the namespace.
func (s *Session) Changed() <-chan struct{} { return s.run.log.Changed() }

// End deletes the custom resources and waits until nothing is left that has to go. What is wrong is among the Violations.
func (s *Session) End() error {
	r := s.run
	primaries := r.primaries()
	r.tornDown = true
	err := s.Do("delete the custom resources", func(k *testkit.K) {
		for _, c := range primaries {
			o := c.Object.DeepCopy()
			err := k.Client.Delete(k.Context(), o, client.PropagationPolicy("Background"))
			if client.IgnoreNotFound(err) != nil {
				r.infraErr = fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	})
	if err != nil {
		return err
	}
	wrong, err := s.waitIdle(stepQuietPeriod, func() bool { return len(r.primaries())+len(r.residue()) == 0 })
	if err == nil && wrong == nil {
		wrong = r.notDeleted(len(s.x.Steps))
	}
	if wrong != nil {
		r.addViolation(wrong.Oracle, wrong.Message, wrong.Detail)
	}
	return err
}

// Violations are what was wrong so far, but for refused requests, which may be the user's fault; see Refused. That a program
// in Go leaves out what is empty, or writes it where the user wrote nothing, is not wrong unless there is a default.
func (s *Session) Violations() []report.Violation {
	r := s.run
	if r.k == nil || r.log == nil {
		return nil
	}
	r.changes = r.snapshot()
	r.checkAll()
	r.mu.Lock()
	all := slices.Clone(r.violations)
	r.mu.Unlock()
	return slices.DeleteFunc(all, func(v report.Violation) bool {
		return v.Oracle == oracleRefused || v.Oracle == oracleSpec && !r.rewroteUserSpec() || v.Oracle == oracleForbidden && !s.lacksPermission(v)
	})
}

// rewroteUserSpec reports whether the operator has changed what an object of the user's asks for.
func (r *run) rewroteUserSpec() bool {
	theirs, wrote := created(r.user.Calls()), map[string]bool{}
	for _, c := range r.operator.Calls() {
		if c.Subresource == "" && c.Writes() && c.Verb != "delete" {
			wrote[c.UID+"@"+c.Version] = true
		}
	}
	last := map[types.UID]any{}
	for _, c := range r.changes {
		uid, asks := c.Object.GetUID(), desiredContent(c.Object)
		if was, known := last[uid]; known && theirs[uid] && wrote[string(uid)+"@"+c.Object.GetResourceVersion()] &&
			!reflect.DeepEqual(was, asks) {
			return true
		}
		last[uid] = asks
	}
	return false
}

// lastRequest is an object's content without its metadata, its status and what is empty.
func desiredContent(u *unstructured.Unstructured) any {
	fields := maps.Clone(u.Object)
	delete(fields, "metadata")
	delete(fields, "status")
	return withoutEmpty(fields)
}

// withoutEmpty is a value without what is empty in it; nil if nothing is left.
func withoutEmpty(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		if value := reflect.ValueOf(v); !value.IsValid() || value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
			return nil
		}
		return v
	}
	out := map[string]any{}
	for name, x := range fields {
		if x = withoutEmpty(x); x != nil {
			out[name] = x
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Close stops the operator and tells what happened.
func (s *Session) Close() []report.Entry {
	r := s.run
	defer r.tb.close()
	for number, p := range r.running() {
		r.endProcess(number, p.Stop)
	}
	r.changes = r.snapshot()
	if r.log != nil {
		r.log.End()
	}
	return r.timeline()
}

// Calls are the operator's requests so far.
func (s *Session) Calls() []intercept.Call { return s.run.operator.Calls() }
