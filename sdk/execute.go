package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// writeBudget limits the writes and the time of one reconcile. Without a limit an object with thousands of children would
// delay events of its own and the progress in its status until the last child is written.
type writeBudget struct {
	began  time.Time
	writes int
	spent  bool
}

// A reconcile ends after minBudgetTime, but not before minWrites, so that a slow API server does not cause more reconciles.
const (
	minBudgetTime = 5 * time.Second
	minWrites     = 100
)

// exhausted reports whether the remaining work is left to the next reconcile. It is checked before each write.
func (b *writeBudget) exhausted() bool {
	if b.began.IsZero() {
		b.began = time.Now()
	}
	b.spent = b.spent || b.writes >= minWrites && time.Since(b.began) > minBudgetTime
	return b.spent
}

func (b *writeBudget) count(did bool) bool {
	if did {
		b.writes++
	}
	return did
}

// maxConsecutiveFailures is the number of consecutive failed requests after which the API server counts as unavailable.
const maxConsecutiveFailures = 3

// execute carries out the plan in order and reports whether it wrote. A failure that concerns one child is kept in that
// child, and the others continue. They also continue after a transient failure. Any other error ends the execution. Children
// that failed in the last reconcile come last, so that a repeated failure does not block the others.
func (e *engine[T]) execute(ctx context.Context, p *Pass[T]) (wrote bool, err error) {
	defer recoverPanic(ctx, &err) // of a ReadyWhen function
	var failed error
	failures := 0
	for _, s := range p.executionOrder() {
		s.stored = s.live
		switch other := s.blocked(); {
		case s.heldBack != nil:
			s.err = s.heldBack
			s.executed = true
			continue
		case other != nil:
			s.waits = fmt.Sprintf("%s waits for %s", s, other)
			continue
		case p.budget.exhausted():
			s.waits = s.String() + " is not written yet"
			continue
		}
		did, err := e.applyChild(ctx, p, s)
		wrote = p.budget.count(did) || wrote
		if did {
			failures = 0
		}
		delete(p.failedLast, s.id())
		switch classify(err) {
		case classNone:
		case classWait, classConflict, classContended, classRejected, classInvalid:
			s.err = err
		case classTransient:
			p.failedLast[s.id()] = true
			if failures++; failures == maxConsecutiveFailures {
				return wrote, err
			}
			failed = cmp.Or(failed, err)
			s.waits = fmt.Sprintf("%s could not be written", s)
			continue
		default:
			return wrote, err
		}
		s.executed = true
		s.assessReadiness()
	}
	return wrote, failed
}

// executionOrder returns the plan in its order, with the children that failed in the last reconcile, and those that wait for
// them, moved to the end.
func (r *passRecord) executionOrder() []*plannedChild {
	maps.DeleteFunc(r.failedLast, func(id childID, _ bool) bool { return !r.planned[id] })
	if len(r.failedLast) == 0 {
		return r.plan
	}
	var first, last []*plannedChild
	isLast := map[*plannedChild]bool{}
	for _, s := range r.plan {
		isLast[s] = r.failedLast[s.id()] || slices.ContainsFunc(s.after, func(other *plannedChild) bool { return isLast[other] })
		if isLast[s] {
			last = append(last, s)
		} else {
			first = append(first, s)
		}
	}
	return append(first, last...)
}

// applyChild brings one child to its desired state, with at most one write in the common case.
func (e *engine[T]) applyChild(ctx context.Context, p *Pass[T], s *plannedChild) (bool, error) {
	intent, err := e.cache.intent(ctx, p.Object, s)
	if err != nil {
		return false, err
	}
	if s.terminating { // no other change is possible, and no earlier rejection applies
		return e.releaseFinalizer(ctx, p, s, intent)
	}
	if err := cmp.Or(e.cache.notInstalledError(s.gvk), p.retries.check(s.retryKey(intent), p.Now)); err != nil {
		return false, err
	}
	switch {
	case s.live == nil:
		return e.create(ctx, p, s, intent)
	case s.lacksFinalizer(e.op.finalizerName()):
		return e.addChildFinalizer(ctx, p, s, intent)
	case s.createOnly && s.retain != p.snapshot.children[s.id()].retained:
		return e.setOwnership(ctx, p, s, s.live)
	case s.createOnly:
		return e.releaseFinalizer(ctx, p, s, intent)
	case e.owner.Converged(intent, s.live):
		if wrote, err := e.releaseFinalizer(ctx, p, s, intent); wrote || err != nil {
			return wrote, err
		}
		return false, p.retries.recentlyContended(s.retryKey(intent), p.Now)
	default:
		return e.update(ctx, p, s, intent)
	}
}

// create creates a child that is missing in the cache. An object that exists nevertheless is a child that the cache does not
// show yet, or a conflicting object.
func (e *engine[T]) create(ctx context.Context, p *Pass[T], s *plannedChild, intent *apply.Intent) (bool, error) {
	if predecessor, ok := p.snapshot.predecessors[s.id()]; ok {
		return false, predecessorError(s, predecessor)
	}
	if !e.cache.watches(s.key.Namespace) {
		message := fmt.Sprintf("%s is in a namespace that the operator does not watch: add it to --watch-namespaces", s)
		return false, &problem{class: classRejected, reason: "NamespaceNotWatched", message: message}
	}
	if err := e.knownConflict(p, s, intent); err != nil {
		return false, s.conflict(err)
	}
	stored := e.cache.newResponse(s)
	err := e.owner.Create(ctx, e.client, intent, stored)
	if err == nil {
		e.recordStored(p, s, "", intent, stored)
		return true, nil
	}
	if !errors.Is(err, apply.ErrStale) {
		return false, e.rejected(p, s, intent, err)
	}
	live := e.cache.newResponse(s)
	if s.mayAdopt != nil { // the function may read any field
		live = object.Empty(s.desired)
	}
	if getErr := e.client.Get(ctx, s.key, live); getErr != nil {
		return false, errors.Join(apply.ErrStale, getErr)
	}
	switch err := intent.CheckOwnership(live); {
	case err != nil && s.adoptable(live):
		return e.adopt(ctx, p, s, intent, live)
	case err != nil:
		e.watchConflict(p, s)
		return false, s.conflict(err)
	}
	live = e.cache.asCached(s.gvk, live)
	s.live = live
	s.stored = live
	s.terminating = !live.GetDeletionTimestamp().IsZero()
	if s.terminating || s.createOnly || e.owner.Converged(intent, live) {
		return false, nil
	}
	return e.update(ctx, p, s, intent)
}

func predecessorError(s *plannedChild, predecessor observedChild) error {
	message := fmt.Sprintf("%s of the former object of this name", s)
	if predecessor.terminating {
		return Wait("WaitingForFormer", "%s is still being deleted", message)
	}
	return Wait("WaitingForFormer", "%s still exists and is about to be collected as garbage", message)
}

func (e *engine[T]) update(ctx context.Context, p *Pass[T], s *plannedChild, intent *apply.Intent) (bool, error) {
	if err := e.checkContention(ctx, p, s, intent); err != nil {
		return false, err
	}
	stored := object.Empty(s.desired)
	err := e.owner.Update(ctx, e.client, intent, s.live, stored)
	if err == nil {
		e.recordStored(p, s, s.live.GetResourceVersion(), intent, stored)
		return true, p.retries.recentlyContended(s.retryKey(intent), p.Now)
	}
	if !apierrors.IsInvalid(err) || errors.Is(err, apply.ErrStale) {
		return false, e.rejected(p, s, intent, err)
	}
	return e.immutable(ctx, p, s, intent, err)
}

// recordStored takes the API server's response as the present state of the child.
func (e *engine[T]) recordStored(p *Pass[T], s *plannedChild, from string, i *apply.Intent, recordStored client.Object) {
	s.stored = e.cache.asCached(s.gvk, recordStored)
	e.cache.recordWrite(s.gvk, p.Object.GetUID(), recordStored)
	if from != "" {
		p.retries.applied(s.retryKey(i), time.Now())
	}
}

// polledReasons are wait reasons without a reliable event for their end: the operator may not be allowed to watch
// namespaces.
var polledReasons = []string{reasonKindNotInstalled, reasonNamespaceNotFound, reasonNamespaceTerminating}

// rejected turns a rejection of this child into a failure that concerns it alone, to be retried later.
func (e *engine[T]) rejected(p *Pass[T], s *plannedChild, i *apply.Intent, err error) error {
	if unknownKind(err) {
		err = kindNotInstalled(s.gvk, notInstalled)
	}
	err = rejection(s.gvk.Kind, s.String(), err)
	problem := mostSevere(err)
	if problem != nil && (problem.class == classRejected || slices.Contains(polledReasons, problem.reason)) {
		return p.retries.rejected(s.retryKey(i), problem, time.Now())
	}
	return err
}

// immutable decides what to do about a change that was rejected as invalid. The rejection alone does not distinguish an
// immutable field from an invalid value, and deleting a working child because of an invalid value would be a disaster. A
// dry-run creation answers whether the API server would accept the child as a new object.
func (e *engine[T]) immutable(
	ctx context.Context, p *Pass[T], s *plannedChild, intent *apply.Intent, rejection error,
) (bool, error) {
	fields := invalidFields(rejection)
	if len(fields) == 0 {
		return false, e.rejected(p, s, intent, rejection)
	}
	sent, err := intent.Sent()
	if err != nil {
		return false, err
	}
	dryRun := &unstructured.Unstructured{Object: sent}
	dryRun.SetName("")
	dryRun.SetGenerateName(strings.TrimRight(s.key.Name[:min(len(s.key.Name), 40)], "-.") + "-")
	if err := e.client.Create(ctx, dryRun, client.DryRunAll); err != nil {
		return false, withQuotaHint(e.rejected(p, s, intent, withRealName(err, s.key.Name)))
	}
	if s.immutable == Stall {
		slices.Sort(fields)
		message := fmt.Sprintf("%s cannot be changed in place: the API server does not allow a change of %s",
			s, strings.Join(slices.Compact(fields), ", "))
		report := &problem{class: classRejected, reason: "ImmutableField", message: message}
		return false, p.retries.rejected(s.retryKey(intent), report, time.Now())
	}
	propagation := metav1.DeletePropagationBackground
	if s.immutable == RecreateOrphan {
		propagation = metav1.DeletePropagationOrphan
	}
	deleted, err := e.delete(ctx, s.live, propagation)
	if err != nil {
		return false, err
	}
	s.terminating = true
	return deleted, nil
}

// prune deletes or orphans the children that are no longer in the plan, and removes tracking finalizers first. If some
// children could not be written, it skips their namespaces: a replacement of a pruned child may be among them.
func (e *engine[T]) prune(ctx context.Context, p *Pass[T], failed bool) (wrote bool, err error) {
	skipped := map[string]bool{}
	for _, s := range p.plan {
		if failed && !s.executed {
			skipped[s.key.Namespace] = true
		}
	}
	for _, id := range p.snapshot.unplanned(p.plan) {
		if p.budget.exhausted() {
			return wrote, nil
		}
		if skipped[id.key.Namespace] || p.snapshot.children[id].retained {
			continue
		}
		remove := e.deleteChild
		if slices.Contains(p.orphanKinds, id.gvk) {
			remove = e.orphanChild
		}
		did, err := remove(ctx, p, id, p.snapshot.children[id])
		wrote = p.budget.count(did) || wrote
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// deleteChild deletes one child.
func (e *engine[T]) deleteChild(ctx context.Context, p *Pass[T], id childID, child observedChild) (wrote bool, err error) {
	live := child.object
	if controllerutil.ContainsFinalizer(live, e.op.finalizerName()) {
		released, err := e.release(ctx, p.Object.GetUID(), id, live)
		if err != nil {
			return false, err
		}
		wrote = released != nil
	}
	force := p.forceDeletes[id] && !isForceDeleted(live) && !e.cache.isForceDeleted(live.GetUID())
	if child.terminating && !force {
		return wrote, nil
	}
	var opts []client.DeleteOption
	if force {
		opts = append(opts, client.GracePeriodSeconds(0))
	}
	deleted, err := e.delete(ctx, live, metav1.DeletePropagationBackground, opts...)
	if err == nil && force {
		e.cache.recordForceDeletion(live.GetUID())
	}
	return wrote || deleted, err
}

// orphanChild removes the ownership of one child.
func (e *engine[T]) orphanChild(ctx context.Context, p *Pass[T], id childID, child observedChild) (wrote bool, err error) {
	if child.terminating {
		return false, nil
	}
	if err := e.removeOwnership(ctx, p.Object.GetUID(), id, child); err != nil {
		return false, err
	}
	e.cache.recordDeletion(child.object.GetUID()) // it is no longer a child
	return true, nil
}

// isForceDeleted reports whether the object was deleted with a grace period of zero, so that only finalizers keep it.
func isForceDeleted(o client.Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace != nil && *grace == 0
}

// delete deletes exactly this instance and reports whether it did. It is no error if the object does not exist.
func (e *engine[T]) delete(
	ctx context.Context, live client.Object, propagation metav1.DeletionPropagation, opts ...client.DeleteOption,
) (bool, error) {
	uid := live.GetUID()
	opts = append(opts, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation))
	err := e.client.Delete(ctx, live, opts...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("deleting %s: %w", live.GetName(), err)
	}
	e.cache.recordDeletion(uid)
	return err == nil, nil
}
