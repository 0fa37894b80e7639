package gen

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// session applies one manifest after the other in one namespace. It is not safe for concurrent use.
type session struct {
	c       *exploration
	inner   *explore.Session
	applied sequence.Sequence // accepted manifests
}

// open starts a session. The caller must close its inner session in either case.
func (ex *exploration) open(ctx context.Context, name string) (*session, error) {
	s, err := ex.x.Open(ctx, name)
	t := &session{c: ex, inner: s}
	if ex.reportsGeneration {
		s.StatusObserved = t.isObserved
	}
	return t, err
}

// isObserved reports whether the status describes the current generation.
func (s *session) isObserved() bool {
	u := s.custom()
	return u != nil && observed(u) == u.GetGeneration()
}

// observed returns the observed generation of a custom resource, or 0.
func observed(u *unstructured.Unstructured) int64 {
	if n, ok, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); ok {
		return n
	}
	ready, _ := readiness.Condition(u, readiness.Ready)
	return ready.ObservedGeneration
}

// apply creates or updates the custom resource with m. It returns why the API server rejects m, or "".
func (s *session) apply(m *unstructured.Unstructured, name string) (refused string, _ error) {
	var last *unstructured.Unstructured
	if n := len(s.applied); n > 0 {
		last = s.applied[n-1]
	}
	var verdict validity.Verdict
	var err error
	broken := s.inner.Do(name, func(in *space.Space) error {
		store := validity.Store{Client: in.Client, Namespace: in.Namespace, Suffix: !s.c.schema.Namespaced}
		verdict, err = store.Validate(in.Context(), last, m)
		return nil
	})
	switch {
	case broken != nil:
		return "", broken
	case err != nil:
		return "", err
	case !verdict.Valid:
		return verdict.Sentence, nil
	}
	s.applied = append(s.applied, m)
	return "", nil
}

// result is the outcome of one step. It is empty on success.
type result struct {
	invalid   string   // the API server rejects the manifest: the step was not made
	stuck     string   // the operator cannot realize the manifest, not even in an empty namespace
	violation *finding // the operator's violation
}

// isBad reports whether the step did not succeed.
func (r result) isBad() bool { return r != result{} }

// advance applies m, waits, and compares the state with the reference of m. A difference is checked a second time, as
// described by second.
func (s *session) advance(ctx context.Context, m *unstructured.Unstructured, second recheck) (result, error) {
	type answer struct {
		ref *reference
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		ref, err := s.c.reference(ctx, m, quick)
		answers <- answer{ref, err}
	}()
	back := s.has(m)
	refused, err := s.apply(m, fmt.Sprintf("apply manifest %d", len(s.applied)+1))
	if err != nil {
		return result{}, err
	}
	var falseStatus *report.Violation
	if refused == "" {
		if falseStatus, err = s.inner.WaitIdle(quickQuietPeriod); err != nil {
			return result{}, err
		}
	}
	a := <-answers // in any case, to leave no goroutine behind
	if a.err == nil && a.ref.unusable().isBad() && !a.ref.final {
		a.ref, a.err = s.c.reference(ctx, m, second.precision)
	}
	switch {
	case a.err != nil || refused != "":
		return result{invalid: refused}, a.err
	case a.ref.unusable().isBad():
		return a.ref.unusable(), nil
	}
	// After a rejection the operator may try another request.
	if violation := s.violation(falseStatus); violation != nil && violation.oracle == oracleRefused {
		if falseStatus, err = s.inner.WaitIdle(second.pause); err != nil {
			return result{}, err
		}
	}
	if falseStatus == nil {
		s.inner.CheckIdle()
	}
	if violation := s.violation(falseStatus); violation != nil {
		return result{violation: violation}, nil
	}
	return s.compare(ctx, m, a.ref, second, back)
}

func (s *session) has(m *unstructured.Unstructured) bool {
	for _, earlier := range s.applied {
		if render(earlier) == render(m) {
			return true
		}
	}
	return false
}

// recheck describes the second check of a difference.
type recheck struct {
	precision precision     // of the reference
	pause     time.Duration // quiet period of the operator
	timeout   time.Duration // time for which the difference must persist
}

// compare compares the state with the reference of m.
func (s *session) compare(
	ctx context.Context, m *unstructured.Unstructured, ref *reference, second recheck, back bool,
) (result, error) {
	diff := s.c.difference(ref, s.state())
	if diff == "" {
		return result{}, nil
	}
	ref, err := s.c.reference(ctx, m, second.precision)
	if err != nil || ref.unusable().isBad() {
		return ref.unusable(), err
	}
	diff, violation, err := s.persistentDifference(ctx, ref, second)
	if err != nil || violation != nil || diff == "" {
		return result{violation: violation}, err
	}
	oracle, message := oracleFresh, "what came of the last manifest depends on the ones before it (-alone +after the others)"
	if back {
		oracle, message = oracleRecovery, "the manifest is as it was before, and what came of it is not (-alone +after the others)"
	}
	if !s.c.has(oracle) {
		return result{}, nil
	}
	return result{violation: &finding{oracle: oracle, message: message, detail: diff}}, nil
}

// persistentDifference returns a difference that persists, or "", or another finding.
func (s *session) persistentDifference(
	ctx context.Context, ref *reference, second recheck,
) (diff string, violation *finding, err error) {
	for began := time.Now(); ; {
		falseStatus, err := s.inner.WaitIdle(second.pause)
		if err != nil {
			return "", nil, err
		}
		if violation := s.violation(falseStatus); violation != nil {
			return "", violation, nil
		}
		changed := s.inner.Changed()
		if diff = s.c.difference(ref, s.state()); diff == "" {
			return "", nil, nil
		}
		left := second.timeout - time.Since(began)
		if left <= 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(left):
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
	if err := s.inner.CatchUp(); err != nil {
		return "", nil, err
	}
	return s.c.difference(ref, s.state()), nil, nil
}

// end deletes the custom resource and returns the finding of that step, or nil.
func (s *session) end() (*finding, error) {
	if err := s.inner.End(); err != nil {
		return nil, err
	}
	s.inner.CheckIdle()
	f := s.violation(nil)
	if f != nil {
		f.deleted = true
	}
	return f, nil
}

// violation returns the first violation of the session, or the current one, or nil.
func (s *session) violation(now *report.Violation) *finding {
	violations := s.inner.Violations()
	if now != nil && len(s.rejections()) == 0 {
		violations = append(violations, *now)
	}
	for _, v := range violations {
		if s.c.has(v.Oracle) {
			return &finding{oracle: v.Oracle, message: v.Message, detail: v.Detail}
		}
	}
	if calls := s.rejections(); len(calls) > 0 && s.isReady() && s.c.has(oracleRefused) {
		return &finding{
			oracle: oracleRefused, detail: calls[0].Message,
			message: fmt.Sprintf("the custom resource is Ready, and the API server refuses what the operator sends: %s",
				calls[0].Request),
		}
	}
	return nil
}

// rejections returns rejected requests of the last step that no later request replaced.
func (s *session) rejections() []intercept.Call {
	refused := s.inner.RejectedRequests()
	left := refused[:0]
	for _, r := range refused {
		made := false
		for _, c := range s.inner.Calls() {
			same := intercept.GroupResourceOf(c.Request) == intercept.GroupResourceOf(r.Request) &&
				c.Name == r.Name && c.Subresource == r.Subresource
			made = made || same && c.Began >= r.Began && c.IsWrite() && c.Verb != "delete" && c.Code > 0 &&
				c.Code < http.StatusMultipleChoices
		}
		if !made {
			left = append(left, r)
		}
	}
	return left
}

// state returns the state of the namespace. Of the custom resource it contains the operator's part only: the rest is
// known, and an oracle covers changes of it.
func (s *session) state() state.State {
	all := state.Renumber(s.inner.State())
	for _, c := range s.inner.CurrentObjects() {
		if !s.isCustom(c.Object) {
			continue
		}
		name := strings.ReplaceAll(c.Object.GetName(), s.inner.Space().Namespace, "$NAMESPACE")
		key := c.Resource.GroupResource().String() + "/" + name
		if fields, ok := all[key].(map[string]any); ok {
			all[key] = map[string]any{"metadata": fields["metadata"], "status": fields["status"]}
		}
	}
	return all
}

func (s *session) isCustom(u *unstructured.Unstructured) bool {
	name := s.c.sample.GetName()
	if !s.c.schema.Namespaced {
		name += "-" + s.inner.Space().Namespace
	}
	return u.GroupVersionKind().GroupKind() == s.c.schema.Kind.GroupKind() && u.GetName() == name
}

// custom returns the stored custom resource, or nil.
func (s *session) custom() *unstructured.Unstructured {
	for _, c := range s.inner.CurrentObjects() {
		if s.isCustom(c.Object) {
			return c.Object
		}
	}
	return nil
}

func (s *session) isReady() bool {
	u := s.custom()
	return u != nil && readiness.MissingCondition(u, readiness.Ready, metav1.ConditionTrue) == ""
}

// stuck returns why the operator cannot realize the manifest, according to its requests and its status, or "". It also
// reports whether this is final. The correct state of such a manifest is unknown: children of the previous manifest may
// remain.
func (s *session) stuck() (why string, final bool) {
	if calls := s.rejections(); len(calls) > 0 {
		return fmt.Sprintf("%s: %s", calls[0].Request, calls[0].Message), true
	}
	u := s.custom()
	if u == nil {
		return "", false
	}
	stalled, hasStalled := readiness.Condition(u, "Stalled")
	reconciling, hasReconciling := readiness.Condition(u, "Reconciling")
	switch {
	case stalled.Status == metav1.ConditionTrue:
		return fmt.Sprintf("Stalled (%s): %s", stalled.Reason, stalled.Message), true
	case reconciling.Status == metav1.ConditionTrue:
		return fmt.Sprintf("Reconciling (%s): %s", reconciling.Reason, reconciling.Message), false
	case hasStalled || hasReconciling:
		return "", false // with both conditions, an operator reports everything else as fine
	case s.c.ready:
		return readiness.Missing(u), false
	default:
		return "", false // its readiness depends on objects that do not exist here
	}
}
