package gen

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// session is one namespace in which the custom resource becomes one manifest after the other. It must not be used
// concurrently.
type session struct {
	c       *exploration
	inner   *explore.Session
	applied sequence.Sequence // what was stored
}

// open begins a trial. Its session has to be closed in either case.
func (ex *exploration) open(ctx context.Context, name string) (*session, error) {
	s, err := ex.x.Open(ctx, name)
	t := &session{c: ex, inner: s}
	if ex.reportsGeneration {
		s.StatusObserved = t.isObserved
	}
	return t, err
}

// isObserved reports whether what the custom resource says is about what it is now.
func (s *session) isObserved() bool {
	u := s.custom()
	return u != nil && observed(u) == u.GetGeneration()
}

// observed is the generation that a custom resource says it is about, 0 if it does not say.
func observed(u *unstructured.Unstructured) int64 {
	if n, ok, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); ok {
		return n
	}
	ready, _ := readiness.Condition(u, readiness.Ready)
	return ready.ObservedGeneration
}

// apply makes the custom resource m. It returns why the API server refuses that, or "".
func (s *session) apply(m *unstructured.Unstructured, name string) (refused string, _ error) {
	var last *unstructured.Unstructured
	if n := len(s.applied); n > 0 {
		last = s.applied[n-1]
	}
	var verdict validity.Verdict
	var err error
	broken := s.inner.Do(name, func(k *testkit.K) {
		verdict, err = validity.Store{Client: k.Client, Namespace: k.Namespace}.Judge(k.Context(), last, m)
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

// result is what came of one step. All are empty if all is well.
type result struct {
	invalid string   // the API server refuses the manifest: the step was not made
	stuck   string   // the operator cannot carry it out, neither alone
	wrong   *finding // what the operator did wrong
}

// isBad reports whether anything is not well.
func (r result) isBad() bool { return r != result{} }

// advance makes the custom resource m, waits, and compares with what comes of m alone. What differs is looked at again:
// with care in a second look, or in the same way but after a longer pause.
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
	a := <-answers // in any case, so that nothing goes on when we have returned
	if a.err == nil && a.ref.unusable().isBad() && !a.ref.final {
		a.ref, a.err = s.c.reference(ctx, m, second.precision)
	}
	switch {
	case a.err != nil || refused != "":
		return result{invalid: refused}, a.err
	case a.ref.unusable().isBad():
		return a.ref.unusable(), nil
	}
	if wrong := s.wrong(falseStatus); wrong != nil && wrong.oracle == oracleRefused { // it may do something else instead
		if falseStatus, err = s.inner.WaitIdle(second.pause); err != nil {
			return result{}, err
		}
	}
	if wrong := s.wrong(falseStatus); wrong != nil {
		return result{wrong: wrong}, nil
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

// recheck says how a difference is looked at a second time.
type recheck struct {
	precision precision     // with which the reference is made
	pause     time.Duration // for which the operator must have been at rest
	timeout   time.Duration // for which the difference must have lasted
}

// compare compares what there is with what comes of m alone.
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
	diff, wrong, err := s.persistentDifference(ctx, ref, second)
	if err != nil || wrong != nil || diff == "" {
		return result{wrong: wrong}, err
	}
	oracle, message := oracleFresh, "what came of the last manifest depends on the ones before it (-alone +after the others)"
	if back {
		oracle, message = oracleRecovery, "the manifest is as it was before, and what came of it is not (-alone +after the others)"
	}
	if !s.c.has(oracle) {
		return result{}, nil
	}
	return result{wrong: &finding{oracle: oracle, message: message, detail: diff}}, nil
}

// persistentDifference returns a difference that lasts, "" if none does, or what else is wrong.
func (s *session) persistentDifference(ctx context.Context, ref *reference, second recheck) (diff string, wrong *finding, err error) {
	for began := time.Now(); ; {
		falseStatus, err := s.inner.WaitIdle(second.pause)
		if err != nil {
			return "", nil, err
		}
		if wrong := s.wrong(falseStatus); wrong != nil {
			return "", wrong, nil
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

// end deletes the custom resource and says what was wrong in that.
func (s *session) end() (*finding, error) {
	if err := s.inner.End(); err != nil {
		return nil, err
	}
	f := s.wrong(nil)
	if f != nil {
		f.deleted = true
	}
	return f, nil
}

// wrong is the first thing that the operator did wrong so far, or that it does now.
func (s *session) wrong(now *report.Violation) *finding {
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

// rejections are the requests of the last step that the API server refused, and that the operator did not replace by others.
func (s *session) rejections() []intercept.Call {
	refused := s.inner.Rejected()
	left := refused[:0]
	for _, r := range refused {
		made := false
		for _, c := range s.inner.Calls() {
			same := intercept.KindOf(c.Request) == intercept.KindOf(r.Request) && c.Name == r.Name && c.Subresource == r.Subresource
			made = made || same && c.Began >= r.Began && c.Writes() && c.Verb != "delete" && c.Code > 0 &&
				c.Code < http.StatusMultipleChoices
		}
		if !made {
			left = append(left, r)
		}
	}
	return left
}

// state is what there is. Of the custom resource it has only what the operator writes; what the user does is known, and if
// the operator writes that, too, there is an oracle for it.
func (s *session) state() state.State {
	all := state.Renumber(s.inner.State())
	for _, c := range s.inner.Current() {
		if !s.isCustom(c.Object) {
			continue
		}
		key := c.Resource.GroupResource().String() + "/" + c.Object.GetName()
		if fields, ok := all[key].(map[string]any); ok {
			all[key] = map[string]any{"metadata": fields["metadata"], "status": fields["status"]}
		}
	}
	return all
}

func (s *session) isCustom(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind().GroupKind() == s.c.schema.Kind.GroupKind() && u.GetName() == s.c.sample.GetName()
}

// custom is the custom resource as it is stored, nil if there is none.
func (s *session) custom() *unstructured.Unstructured {
	for _, c := range s.inner.Current() {
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

// stuck returns why the operator cannot carry out what it is asked for, by what it says itself, or "", and whether that is
// all there is to come. Nobody can say what should come of such a manifest: children of the one before may be left or not.
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
		return "", false // it has words for both, so what is neither is meant to be so
	case s.c.ready:
		return readiness.Missing(u), false
	default:
		return "", false // its readiness depends on what is not here
	}
}
