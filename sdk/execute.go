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

// turn is what one pass may take of the operator's time: an object with very many children must not go unheard, nor keep its
// status from telling how far it is, until the last of them is written.
type turn struct {
	began  time.Time
	writes int
	ended  bool
}

// A turn ends after turnLimit, but not before turnWrites, so that a slow API server does not make more passes of it.
const (
	turnLimit  = 5 * time.Second
	turnWrites = 100
)

// over reports whether the rest is for the next pass. It is asked before each write.
func (t *turn) over() bool {
	if t.began.IsZero() {
		t.began = time.Now()
	}
	t.ended = t.ended || t.writes >= turnWrites && time.Since(t.began) > turnLimit
	return t.ended
}

func (t *turn) wrote(did bool) bool {
	if did {
		t.writes++
	}
	return did
}

// hopeless is how many requests in a row fail until the API server is taken to be out of order.
const hopeless = 3

// execute carries out the steps of a plan in order and reports whether it wrote. A failure that concerns one child is
// kept in its step and the others go on, and so they do after one that may not come again; any other ends the execution.
// What failed in the last pass comes last, so that it keeps nothing else from being carried out, however often it fails.
func (e *engine[T]) execute(ctx context.Context, p *Pass[T]) (wrote bool, err error) {
	defer recoverPanic(ctx, &err) // of a ReadyWhen
	var failed error
	failures := 0
	for _, s := range p.inTurn() {
		s.stored = s.live
		switch other := s.blocked(); {
		case s.withheld != nil:
			s.err, s.tried = s.withheld, true
			continue
		case other != nil:
			s.waits = fmt.Sprintf("%s waits for %s", s, other)
			continue
		case p.turn.over():
			s.waits = s.String() + " is not written yet"
			continue
		}
		did, err := e.carryOut(ctx, p, s)
		wrote = p.turn.wrote(did) || wrote
		if did {
			failures = 0
		}
		delete(p.late, s.id())
		switch classify(err) {
		case classNone:
		case classWait, classConflict, classContended, classRejected, classInvalid:
			s.err = err
		case classTransient:
			p.late[s.id()] = true
			if failures++; failures == hopeless {
				return wrote, err
			}
			failed = cmp.Or(failed, err)
			s.waits = fmt.Sprintf("%s could not be written", s)
			continue
		default:
			return wrote, err
		}
		s.tried = true
		s.assess()
	}
	return wrote, failed
}

// inTurn returns the plan in its order, but for the children that failed in the last pass, and those that wait for them.
func (r *record) inTurn() []*step {
	maps.DeleteFunc(r.late, func(id childID, _ bool) bool { return !r.planned[id] })
	if len(r.late) == 0 {
		return r.plan
	}
	var first, last []*step
	isLast := map[*step]bool{}
	for _, s := range r.plan {
		isLast[s] = r.late[s.id()] || slices.ContainsFunc(s.after, func(other *step) bool { return isLast[other] })
		if isLast[s] {
			last = append(last, s)
		} else {
			first = append(first, s)
		}
	}
	return append(first, last...)
}

// carryOut makes one child what it should be, with at most one write in the ordinary case.
func (e *engine[T]) carryOut(ctx context.Context, p *Pass[T], s *step) (bool, error) {
	intent, err := e.view.intent(ctx, p.Object, s)
	if err != nil {
		return false, err
	}
	if s.terminating { // there is nothing else to be done about it, and no refusal of a change concerns it
		return e.letGo(ctx, p, s, intent)
	}
	if err := cmp.Or(e.view.absent(s.gvk), p.troubles.check(s.about(intent), p.Now)); err != nil {
		return false, err
	}
	switch {
	case s.live == nil:
		return e.create(ctx, p, s, intent)
	case s.unguarded(e.op.finalizerName()):
		return e.guardChild(ctx, p, s, intent)
	case s.createOnly && s.kept != p.seen.children[s.id()].kept:
		return e.sign(ctx, p, s, s.live)
	case s.createOnly:
		return e.letGo(ctx, p, s, intent)
	case e.owner.Converged(intent, s.live):
		if wrote, err := e.letGo(ctx, p, s, intent); wrote || err != nil {
			return wrote, err
		}
		return false, p.troubles.truce(s.about(intent), p.Now)
	default:
		return e.update(ctx, p, s, intent)
	}
}

// create makes a child that is not there as far as we see. If it turns out to exist, it is ours and we did not see it,
// or it is in our way.
func (e *engine[T]) create(ctx context.Context, p *Pass[T], s *step, intent *apply.Intent) (bool, error) {
	if former, ok := p.seen.former[s.id()]; ok {
		return false, formerError(s, former)
	}
	if !e.view.watches(s.key.Namespace) {
		message := fmt.Sprintf("%s is in a namespace that the operator does not watch: add it to --watch-namespaces", s)
		return false, &problem{class: classRejected, reason: "NamespaceNotWatched", message: message}
	}
	if err := e.obstacle(p, s, intent); err != nil {
		return false, s.conflict(err)
	}
	stored := e.view.answer(s)
	err := e.owner.Create(ctx, e.client, intent, stored)
	if err == nil {
		e.stored(p, s, "", intent, stored)
		return true, nil
	}
	if !errors.Is(err, apply.ErrStale) {
		return false, e.rejected(p, s, intent, err)
	}
	live := e.view.answer(s)
	if s.adopt != nil { // which may look at all of it
		live = object.Empty(s.desired)
	}
	if getErr := e.client.Get(ctx, s.key, live); getErr != nil {
		return false, errors.Join(apply.ErrStale, getErr)
	}
	switch err := intent.CheckOwnership(live); {
	case err != nil && s.adoptable(live):
		return e.adopt(ctx, p, s, intent, live)
	case err != nil:
		e.watchObstacle(p, s)
		return false, s.conflict(err)
	}
	live = e.view.shown(s.gvk, live)
	s.live, s.stored, s.terminating = live, live, !live.GetDeletionTimestamp().IsZero()
	if s.terminating || s.createOnly || e.owner.Converged(intent, live) {
		return false, nil
	}
	return e.update(ctx, p, s, intent)
}

func formerError(s *step, former observed) error {
	message := fmt.Sprintf("%s of the former object of this name", s)
	if former.terminating {
		return Wait("WaitingForFormer", "%s is still being deleted", message)
	}
	return Wait("WaitingForFormer", "%s still exists and is about to be collected as garbage", message)
}

func (e *engine[T]) update(ctx context.Context, p *Pass[T], s *step, intent *apply.Intent) (bool, error) {
	if err := e.contend(ctx, p, s, intent); err != nil {
		return false, err
	}
	stored := object.Empty(s.desired)
	err := e.owner.Update(ctx, e.client, intent, s.live, stored)
	if err == nil {
		e.stored(p, s, s.live.GetResourceVersion(), intent, stored)
		return true, p.troubles.truce(s.about(intent), p.Now)
	}
	if !apierrors.IsInvalid(err) || errors.Is(err, apply.ErrStale) {
		return false, e.rejected(p, s, intent, err)
	}
	return e.immutable(ctx, p, s, intent, err)
}

// stored takes over the server's answer as the present state of the child.
func (e *engine[T]) stored(p *Pass[T], s *step, from string, i *apply.Intent, stored client.Object) {
	s.stored = e.view.shown(s.gvk, stored)
	e.view.wrote(s.gvk, p.Object.GetUID(), stored)
	if from != "" {
		p.troubles.applied(s.about(i), time.Now())
	}
}

// polled are the reasons to wait for whose end no event need tell: the operator may not be allowed to watch namespaces.
//
//nolint:gochecknoglobals // it is constant.
var polled = []string{reasonKindNotInstalled, reasonNamespaceNotFound, reasonNamespaceTerminating}

// rejected turns a refusal of this child into a failure that concerns it alone, to be tried again later.
func (e *engine[T]) rejected(p *Pass[T], s *step, i *apply.Intent, err error) error {
	if unknownKind(err) {
		err = kindNotInstalled(s.gvk, notInstalled)
	}
	err = rejection(s.gvk.Kind, s.String(), err)
	if refusal := gravest(err); refusal != nil && (refusal.class == classRejected || slices.Contains(polled, refusal.reason)) {
		return p.troubles.refused(s.about(i), refusal, time.Now())
	}
	return err
}

// immutable decides what to do about a change that was refused as invalid. The refusal alone does not tell an immutable
// field from a bad value, and deleting a working child for a bad value would be a disaster: so the server is asked, in
// a dry run, whether it would accept the child as a new one.
func (e *engine[T]) immutable(
	ctx context.Context, p *Pass[T], s *step, intent *apply.Intent, refusal error,
) (bool, error) {
	fields := causes(refusal)
	if len(fields) == 0 {
		return false, e.rejected(p, s, intent, refusal)
	}
	sent, err := intent.Sent()
	if err != nil {
		return false, err
	}
	probe := &unstructured.Unstructured{Object: sent}
	probe.SetName("")
	probe.SetGenerateName(strings.TrimRight(s.key.Name[:min(len(s.key.Name), 40)], "-.") + "-")
	if err := e.client.Create(ctx, probe, client.DryRunAll); err != nil {
		return false, crowded(e.rejected(p, s, intent, renamed(err, s.key.Name)))
	}
	if s.immutable == Stall {
		slices.Sort(fields)
		message := fmt.Sprintf("%s cannot be changed in place: the API server does not allow a change of %s",
			s, strings.Join(slices.Compact(fields), ", "))
		report := &problem{class: classRejected, reason: "ImmutableField", message: message}
		return false, p.troubles.refused(s.about(intent), report, time.Now())
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

// prune deletes the children that the plan no longer has, after releasing those that are tracked, or hands them over. If
// some of the plan could not be written, it leaves their namespaces alone: what replaces a child may be among it.
func (e *engine[T]) prune(ctx context.Context, p *Pass[T], failed bool) (wrote bool, err error) {
	spared := map[string]bool{}
	for _, s := range p.plan {
		if failed && !s.tried {
			spared[s.key.Namespace] = true
		}
	}
	for _, id := range p.seen.unplanned(p.plan) {
		if p.turn.over() {
			return wrote, nil
		}
		if spared[id.key.Namespace] || p.seen.children[id].kept {
			continue
		}
		end := e.discard
		if slices.Contains(p.keeps, id.gvk) {
			end = e.letBe
		}
		did, err := end(ctx, p, id, p.seen.children[id])
		wrote = p.turn.wrote(did) || wrote
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// discard deletes one child.
func (e *engine[T]) discard(ctx context.Context, p *Pass[T], id childID, child observed) (wrote bool, err error) {
	live := child.object
	if controllerutil.ContainsFinalizer(live, e.op.finalizerName()) {
		released, err := e.release(ctx, p.Object.GetUID(), id, live)
		if err != nil {
			return false, err
		}
		wrote = released != nil
	}
	abandon := p.abandons[id] && !isAbandoned(live) && !e.view.isAbandoned(live.GetUID())
	if child.terminating && !abandon {
		return wrote, nil
	}
	var opts []client.DeleteOption
	if abandon {
		opts = append(opts, client.GracePeriodSeconds(0))
	}
	deleted, err := e.delete(ctx, live, metav1.DeletePropagationBackground, opts...)
	if err == nil && abandon {
		e.view.abandons(live.GetUID())
	}
	return wrote || deleted, err
}

// letBe hands one child over.
func (e *engine[T]) letBe(ctx context.Context, p *Pass[T], id childID, child observed) (wrote bool, err error) {
	if child.terminating {
		return false, nil
	}
	if err := e.handOver(ctx, p.Object.GetUID(), id, child); err != nil {
		return false, err
	}
	e.view.deletes(child.object.GetUID()) // as a child, that is
	return true, nil
}

// isAbandoned reports whether the object was told not to wait: only finalizers keep it, and no grace period.
func isAbandoned(o client.Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace != nil && *grace == 0
}

// delete deletes exactly this instance and reports whether it did. One that is gone already is fine.
func (e *engine[T]) delete(
	ctx context.Context, live client.Object, propagation metav1.DeletionPropagation, opts ...client.DeleteOption,
) (bool, error) {
	uid := live.GetUID()
	opts = append(opts, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation))
	err := e.client.Delete(ctx, live, opts...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("deleting %s: %w", live.GetName(), err)
	}
	e.view.deletes(uid)
	return err == nil, nil
}
