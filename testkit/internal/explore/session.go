package explore

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// A Session runs an operator without faults in a namespace of its own, and its user chooses each next step. It explores
// sequences of user actions instead of failures. It is not safe for concurrent use.
type Session struct {
	// StatusObserved reports whether the status is that of the last step. After a second without activity it is not
	// required. Optional.
	StatusObserved func() bool

	run     *run
	x       *Explorer       // of this session only: its Steps are those made so far
	allowed map[string]bool // cached access reviews, by rule and name
}

// Open starts a session in a namespace that contains the objects of Setup, and starts the operator. Errors are those of
// the test infrastructure; Violations reports mistakes of the operator. The session must be closed in either case.
func (x *Explorer) Open(ctx context.Context, name string) (*Session, error) {
	own := *x
	own.Steps = nil
	own.DisabledOracles = append(slices.Clone(own.DisabledOracles), oracleRights) // they are the same each time
	s := &Session{x: &own, allowed: map[string]bool{}}
	plan := &fault.Plan{Name: name, Fault: "none", AlwaysApplies: true, SkipCounts: true, GracefulStop: true}
	s.run = own.newRun(ctx, plan, nil)
	r := s.run
	if r.open() {
		r.operator.Enter(0)
		r.procs.start()
	}
	return s, s.err()
}

// err returns the error that ends the session, or nil.
func (s *Session) err() error {
	if s.run.infraError() != nil {
		return s.run.infraError()
	}
	if failures := s.run.space.Failures(); len(failures) > 0 {
		return fmt.Errorf("in the namespace for %s: %s", s.run.plan.Name, failures[0])
	}
	if err := s.run.space.Context().Err(); err != nil {
		return fmt.Errorf("in the namespace for %s: %w", s.run.plan.Name, err)
	}
	return nil
}

// Space returns the space of the session.
func (s *Session) Space() *space.Space { return s.run.space }

// Do makes a step.
func (s *Session) Do(name string, step func(s *space.Space) error) error {
	s.x.Steps = append(s.x.Steps, Step{Name: name, Do: step})
	s.run.operator.Enter(len(s.x.Steps))
	s.run.logStep(name)
	s.run.space.Check(step(s.run.space))
	s.run.operator.ResetIdleTime()
	return s.err()
}

// WaitIdle waits until for the quiet period the operator has sent nothing, has received no event, nothing has changed,
// and the status is true. After the explorer's timeout it returns a violation. The timeout is longer for an operator that
// does not repeat the same writes, because the machine may be busy.
//
// An operator may repeat a rejected request until the user corrects the cause. After a rejection, the shortest quiet
// period is enough, and the status is not checked.
func (s *Session) WaitIdle(quiet time.Duration) (*report.Violation, error) {
	return s.waitIdle(quiet, func() bool { return true })
}

// waitIdle is WaitIdle with an additional condition. It is no violation if done stays false.
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
			return nil, nil //nolint:nilnil // a worse violation is known already
		case waited < s.x.Timeout:
		case refused || rests: // the caller decides whether retries and pending work are violations
			return falseStatus, nil
		case waited > maxTimeouts*s.x.Timeout, s.repeatsWrites():
			return s.neverIdle(), nil
		}
		s.pollDelay()
	}
}

// CatchUp waits until the history shows the current objects. On a busy machine the API server ends the watch of a slow
// client, and the next watch may begin half a minute later.
func (s *Session) CatchUp() error {
	for began := time.Now(); s.run.isBehind(); s.pollDelay() {
		if time.Since(began) > maxTimeouts*s.x.Timeout {
			return errHistoryLags
		}
	}
	return s.err()
}

// pollDelay waits between two polls.
func (s *Session) pollDelay() {
	select {
	case <-time.After(quiescence.StepQuietPeriod / 3):
	case <-s.run.space.Context().Done():
	}
}

// maxTimeouts is the number of timeouts that an operator gets if it does not repeat the same writes.
const maxTimeouts = 6

// isIdle reports whether there was no activity for the quiet period and, if so, a false statement of the status.
func (s *Session) isIdle(quiet time.Duration, trouble bool) (bool, *report.Violation) {
	idle := s.idleFor
	if trouble && quiet <= quiescence.FinalQuietPeriod {
		quiet, idle = quiescence.StepQuietPeriod, s.quietFor
	}
	if !s.run.idle.HasBeenIdle(s.run.space.Context(), quiet, idle) {
		return false, nil
	}
	return true, s.run.checkStatus(len(s.x.Steps) - 1)
}

// neverIdle returns the violation of an operator that keeps writing.
func (s *Session) neverIdle() *report.Violation {
	return &report.Violation{
		Oracle: oracleAtRest, Detail: s.run.lastWrites(8, s.run.began),
		Message: fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			s.run.after(len(s.x.Steps)-1), s.x.Timeout),
	}
}

// repeatsWrites reports whether the operator has repeated a write in the last step, and recently.
func (s *Session) repeatsWrites() bool {
	const often = 5
	times := map[string]int{}
	most := 0
	var last time.Duration
	for _, c := range s.run.operator.Calls() {
		if c.Step == len(s.x.Steps) && c.IsWrite() && c.Resource != "events" && !intercept.IsLease(c.Request) {
			what := c.Verb + " " + c.Resource + "/" + c.Subresource + " " + c.Name
			times[what]++
			most, last = max(most, times[what]), c.Began
		}
	}
	ago := time.Since(s.run.operator.Began()) - last
	return most >= often && ago < s.x.Timeout/2
}

// rejections reports whether requests of the last step were rejected for their content, or for lack of a permission.
func (s *Session) rejections() (refused, forbidden bool) {
	for _, c := range s.run.operator.Calls() {
		forbidden = forbidden || c.Step == len(s.x.Steps) && c.Reached && c.Code == http.StatusForbidden
	}
	return len(s.RejectedRequests()) > 0, forbidden
}

// quietFor returns the time without activity, and false while a request is in progress.
func (s *Session) quietFor() (time.Duration, bool) {
	busy, idle := s.run.operator.Busy()
	return min(idle, s.run.idle.SinceLastChange()), !busy
}

// idleFor returns the time without activity. While the operator has not received all events, or has not observed the last
// generation, a minimum applies: its watch may select some objects of a kind only.
func (s *Session) idleFor() (time.Duration, bool) {
	const minIdle = time.Second
	idle, ok := s.quietFor()
	return idle, ok && (idle >= minIdle || s.run.observedLatest() && (s.StatusObserved == nil || s.StatusObserved()))
}

// RejectedRequests returns the operator's requests of the last step that the API server rejected for their content.
func (s *Session) RejectedRequests() []intercept.Call {
	var all []intercept.Call
	for _, c := range s.run.operator.Calls() {
		if c.Step != len(s.x.Steps) || !c.Reached || !c.IsWrite() || s.run.isStale(c) {
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

// isAllowed reports whether the operator's roles allow a forbidden request. Then admission rejected it: a pod, for
// example, whose ServiceAccount does not exist.
func (s *Session) isAllowed(c intercept.Call) bool {
	if oracle.IsTerminatingNamespace(c) {
		return true
	}
	id := rule(c) + " " + c.Name
	if known, ok := s.allowed[id]; ok {
		return known
	}
	who := s.run.procs.credentials()
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
	if who == nil || who.createReview(s.run.space.Context(), reviews, review) != nil {
		return false // without a review, the response of the API server counts
	}
	s.allowed[id] = review.Status.Allowed
	return review.Status.Allowed
}

// lacksPermission reports whether a violation is about a permission that the operator lacks.
func (s *Session) lacksPermission(v report.Violation) bool {
	return slices.ContainsFunc(s.run.operator.Calls(), func(c intercept.Call) bool {
		return c.Reached && c.Code == http.StatusForbidden && strings.HasSuffix(v.Message, ": "+rule(c)) && !s.isAllowed(c)
	})
}

// State returns the state of the namespace. Of a status it contains the conditions only: other fields may record history.
func (s *Session) State() state.State { return s.run.state() }

// CurrentObjects returns the existing objects.
func (s *Session) CurrentObjects() []history.Change { return s.run.log.CurrentObjects() }

// Changed returns a channel that is closed at the next change in the namespace.
func (s *Session) Changed() <-chan struct{} { return s.run.log.Changed() }

// End deletes the custom resources and waits until no residue is left. Violations reports mistakes.
func (s *Session) End() error {
	r := s.run
	primaries := r.primaries()
	r.setTornDown()
	err := s.Do("delete the custom resources", func(s *space.Space) error {
		for _, c := range primaries {
			o := c.Object.DeepCopy()
			err := s.Client.Delete(s.Context(), o, client.PropagationPolicy("Background"))
			if client.IgnoreNotFound(err) != nil {
				r.abort(fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	violation, err := s.waitIdle(quiescence.StepQuietPeriod, func() bool { return len(r.primaries())+len(r.residue()) == 0 })
	if err == nil && violation == nil {
		violation = r.notDeleted(len(s.x.Steps), s.x.Timeout)
	}
	if violation != nil {
		r.addViolation(violation.Oracle, violation.Message, violation.Detail)
	}
	return err
}

// Violations returns the violations so far. Rejected requests are excluded, because the user's manifest may be the cause:
// see RejectedRequests. Omitted empty fields are excluded as well: programs in Go drop or add them when they write an
// object.
func (s *Session) Violations() []report.Violation {
	r := s.run
	if !r.space.IsOpen() || r.log == nil {
		return nil
	}
	r.changes = r.snapshot()
	checks{r}.checkAll()
	r.outcome.mu.Lock()
	all := slices.Clone(r.violations)
	r.outcome.mu.Unlock()
	return slices.DeleteFunc(all, func(v report.Violation) bool {
		return v.Oracle == oracleRefused || v.Oracle == oracleSpec && !r.rewroteUserSpec() ||
			v.Oracle == oracleForbidden && !s.lacksPermission(v)
	})
}

// CheckIdle evaluates Options.Checks after the last step. The operator must be idle.
func (s *Session) CheckIdle() { s.run.checkIdle(len(s.x.Steps) - 1) }

// Close runs Options.AfterRun, stops the operator and returns the timeline. The error is that of AfterRun or of the test
// infrastructure.
func (s *Session) Close() (_ []report.Entry, err error) {
	r := s.run
	defer r.space.Close()
	before := len(r.space.Failures())
	r.endRun()
	if failures := r.space.Failures(); len(failures) > before {
		err = fmt.Errorf("at the end of the namespace for %s: %s", r.plan.Name, failures[before])
	}
	for number, p := range r.procs.running() {
		r.procs.endProcess(number, p.Stop)
	}
	r.changes = r.snapshot()
	if r.log != nil {
		r.log.End()
	}
	return r.timeline(), cmp.Or(err, r.infraError())
}

// Calls returns the operator's requests so far.
func (s *Session) Calls() []intercept.Call { return s.run.operator.Calls() }
