package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// ErrStale means that the object was created, replaced or deleted since it was last seen. Look again and retry.
var ErrStale = errors.New("the object was created, replaced or deleted meanwhile")

// OwnershipError means that an object of the desired name exists and that somebody else controls it, or nobody.
type OwnershipError struct {
	// Apply names the object as "Kind namespace/name".
	Object string
	// UID is that of the existing object.
	UID types.UID
	// Controller is its controller, nil if it has none.
	Controller *metav1.OwnerReference
	// LabeledOwner is the name of the owner that its annotation names (see [LabeledBy]), "" if there is none.
	LabeledOwner string
}

// Error says whose the object is and how to resolve it.
func (e *OwnershipError) Error() string {
	whose := cmp.Or(e.LabeledOwner, "nobody")
	if e.Controller != nil {
		whose = e.Controller.Kind + " " + e.Controller.Name
	}
	return fmt.Sprintf("%s exists and belongs to %s: delete it or rename it", e.Object, whose)
}

// Result says what an apply did.
type Result string

// The possible results.
const (
	Unchanged Result = "unchanged"
	Created   Result = "created"
	Updated   Result = "updated"
)

// Manager applies objects under one field owner. It is safe for concurrent use. The zero value is not usable; see
// [NewManager].
type Manager struct {
	name  string
	seed  maphash.Seed
	mu    sync.Mutex
	memos map[types.UID]memo
	swept time.Time
}

// memo remembers that an intent was found converged, so that an unchanged object costs two comparisons.
type memo struct {
	digest  string
	version string // resourceVersion at which it was verified last
	owned   uint64 // hash of the evidence
	used    time.Time
}

// memoLimit is for how long an object need not be asked about until it is forgotten, as those that are gone will be. To have
// forgotten one that is not costs as much as a restart does: its managedFields entry is read again.
const memoLimit = time.Hour

// NewManager returns the field owner of that name. One operator has one name, and keeps it between versions.
func NewManager(name string) *Manager {
	return &Manager{name: name, seed: maphash.MakeSeed(), memos: map[types.UID]memo{}, swept: time.Now()}
}

// Name is the field owner's name, as it appears in metadata.managedFields.
func (w *Manager) Name() string { return w.name }

// Apply brings the desired object about and leaves the server's answer in it. It reads the present object through the
// client, which is normally a cache, and makes no request if that is converged. With [ControlledBy] or
// [LabeledBy] an object of that name which the owner does not control is refused with a [OwnershipError] and never written.
//
// Errors: [ErrStale] if the read was out of date, and the API server's own.
func (w *Manager) Apply(ctx context.Context, c client.Client, desired client.Object, opts ...Option) (Result, error) {
	intent, err := NewIntent(desired, c.Scheme(), opts...)
	if err != nil {
		return "", err
	}
	result, stored, err := w.bring(ctx, c, intent, object.Empty(desired))
	if err != nil {
		return "", err
	}
	object.Assign(desired, stored)
	return result, nil
}

func (w *Manager) bring(
	ctx context.Context, c client.Client, i *Intent, live client.Object,
) (Result, client.Object, error) {
	stored := object.Empty(live)
	err := c.Get(ctx, i.Key, live)
	switch {
	case apierrors.IsNotFound(err):
		return Created, stored, w.Create(ctx, c, i, stored)
	case err != nil:
		return "", nil, fmt.Errorf("reading %s: %w", i, err)
	}
	if err := i.CheckOwnership(live); err != nil {
		return "", nil, err
	}
	if w.Converged(i, live) {
		return Unchanged, live, nil
	}
	return Updated, stored, w.Update(ctx, c, i, live, stored)
}

// CheckOwnership applies the rule of adoption: an object is ours only by a controller reference with our owner's UID (see
// [ControlledBy]), or by a mark with it and no controller (see [LabeledBy]). Either will do, so that an object can go from
// one to the other. For any other object it returns a [OwnershipError]; without an owner it refuses nothing.
func (i *Intent) CheckOwnership(live client.Object) error {
	if i.owner == "" {
		return nil
	}
	controller := metav1.GetControllerOf(live)
	switch {
	case controller != nil && controller.UID == i.owner:
		return nil
	case controller == nil && live.GetLabels()[OwnerUIDLabel] == string(i.owner):
		return nil
	}
	return &OwnershipError{
		Object: i.String(), UID: live.GetUID(), Controller: controller, LabeledOwner: live.GetAnnotations()[OwnerAnnotation],
	}
}

// Converged reports whether nothing has to be done to make live what the intent says. It makes no request. The object
// may come from a cache that drops all managedFields but our own (see [TrimManagedFields]).
func (w *Manager) Converged(i *Intent, live client.Object) bool {
	if live.GetAnnotations()[DigestAnnotation] != i.digest || !i.guards(live) {
		return false
	}
	known, ok := w.recall(live.GetUID())
	if ok && known.digest == i.digest && known.version == live.GetResourceVersion() {
		return true
	}
	now := memo{digest: i.digest, version: live.GetResourceVersion(), owned: w.hash(i, live)}
	again := ok && known.digest == now.digest
	if again && known.owned == now.owned || w.proven(i, live, !again) {
		w.remember(live.GetUID(), now)
		return true
	}
	return false
}

// proven reports whether what the server recorded says that the object is as intended. Where it says nothing and only
// metadata is at hand, trust decides: to be sure costs one apply.
func (w *Manager) proven(i *Intent, live client.Object, trust bool) bool {
	_, partial := live.(*metav1.PartialObjectMetadata)
	whole := func(at fieldpath.Path, v any) bool {
		if partial {
			return trust
		}
		return holds(live, at, v)
	}
	return len(i.strays(live, w.name)) == 0 && OwnedFields(live, w.name).covers(i.Fields(), whole)
}

// guards reports whether the object has the finalizers of the intent, and nothing that would end it against the intent.
func (i *Intent) guards(live client.Object) bool {
	return !i.bound(live) && !slices.ContainsFunc(i.finalizers, func(name string) bool {
		return !slices.Contains(live.GetFinalizers(), name)
	})
}

// bound reports whether the object refers to an owner that only marks are to name, so that garbage collection would take it.
func (i *Intent) bound(live client.Object) bool {
	return i.marked && slices.ContainsFunc(live.GetOwnerReferences(), i.isOwner)
}

func (i *Intent) isOwner(r metav1.OwnerReference) bool { return r.UID == i.owner }

// MarkConverged makes a converged object count as converged after a write of the caller's own that concerned no field of the
// intent, such as that of package finalizer. Stored is the server's answer to that write, which must have been limited to
// the version that [Manager.Converged] or an update said yes to.
func (w *Manager) MarkConverged(i *Intent, stored client.Object) { w.take(i, stored) }

// Create applies the intent to an object that does not exist and leaves the server's answer in into, whose type must be
// that of the object and which should be new, because the answer is decoded into it. It returns [ErrStale] if the
// object exists: nothing was written then.
func (w *Manager) Create(ctx context.Context, c client.Client, i *Intent, into client.Object) error {
	body, err := i.forCreation()
	if err != nil {
		return err
	}
	return w.send(ctx, c, i, body, into)
}

// Update applies the intent to exactly the live object and leaves the server's answer in into. It returns [ErrStale] if
// that object is gone: it is not created anew. It does not apply the rule of adoption (see [Intent.CheckOwnership]), but an object
// that the owner does not control yet is written only in the version of live, and [ErrStale] is returned for a later one.
func (w *Manager) Update(ctx context.Context, c client.Client, i *Intent, live, into client.Object) error {
	body, err := i.forUpdate(live, OwnedFields(live, w.name))
	if err != nil {
		return err
	}
	if err := w.clear(ctx, c, i, live); err != nil {
		return err
	}
	return w.send(ctx, c, i, body, into)
}

// SetOwnership adds the labels, annotations and finalizers of the intent to those of exactly the live object, names the owner as the
// intent does, and changes nothing else: what the owner may have applied to it before stays, which an apply of so little
// would remove. The server's answer is left in into. It returns [ErrStale] if the object is no longer as it was.
func (w *Manager) SetOwnership(ctx context.Context, c client.Client, i *Intent, live, into client.Object) error {
	if OwnedFields(live, w.name).String() == "" { // there is nothing that it would remove
		return w.Update(ctx, c, i, live, into)
	}
	signed, m := object.Copy(live), i.guarded()
	labels, annotations, references := signed.GetLabels(), signed.GetAnnotations(), signed.GetOwnerReferences()
	for key, value := range m.Labels {
		with(&labels, key, value)
	}
	for key, value := range m.Annotations {
		if key != DigestAnnotation { // the rest of the intent is not applied
			with(&annotations, key, value)
		}
	}
	if !i.marked {
		delete(labels, OwnerUIDLabel)
		delete(annotations, OwnerAnnotation)
	}
	references = append(slices.DeleteFunc(references, i.isOwner), m.OwnerReferences...)
	signed.SetLabels(labels)
	signed.SetAnnotations(annotations)
	signed.SetOwnerReferences(references)
	for _, name := range m.Finalizers {
		controllerutil.AddFinalizer(signed, name)
	}
	body, err := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}).Data(signed)
	if err != nil {
		return fmt.Errorf("encoding what to add to %s: %w", i, err)
	}
	into.SetName(i.Key.Name)
	into.SetNamespace(i.Key.Namespace)
	return stale(i, c.Patch(ctx, into, client.RawPatch(types.MergePatchType, body), client.FieldOwner(w.name)))
}

// clear removes what others added to the exact fields of this very version, and the reference to an owner that is to be
// named by marks. An apply cannot, if it is not ours.
func (w *Manager) clear(ctx context.Context, c client.Client, i *Intent, live client.Object) error {
	strays := i.strays(live, w.name)
	ours := i.CheckOwnership(live) == nil // and what is not yet must stay the version that was judged
	if len(strays) == 0 && !i.bound(live) || !ours {
		return nil
	}
	head := map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
	if i.bound(live) {
		head["ownerReferences"] = slices.DeleteFunc(slices.Clone(live.GetOwnerReferences()), i.isOwner)
	}
	change := map[string]any{"metadata": head}
	for _, p := range strays {
		p.set(change, nil)
	}
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding what to remove from %s: %w", i, err)
	}
	into := &metav1.PartialObjectMetadata{} // of the answer nothing is needed
	into.SetGroupVersionKind(i.GVK)
	into.SetName(i.Key.Name)
	into.SetNamespace(i.Key.Namespace)
	err = c.Patch(ctx, into, client.RawPatch(types.MergePatchType, body), client.FieldOwner(w.name))
	return stale(i, err)
}

// stale tells of a refusal which means that the object is not as it was.
func stale(i *Intent, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err) || isReplaced(err):
		return fmt.Errorf("applying %s: %w", i, errors.Join(ErrStale, err))
	default:
		return fmt.Errorf("applying %s: %w", i, err)
	}
}

func (w *Manager) send(ctx context.Context, c client.Client, i *Intent, body []byte, into client.Object) error {
	into.SetName(i.Key.Name)
	into.SetNamespace(i.Key.Namespace)
	patch := client.RawPatch(types.ApplyPatchType, body)
	if err := stale(i, c.Patch(ctx, into, patch, client.FieldOwner(w.name), client.ForceOwnership)); err != nil {
		return err
	}
	// What the server stored is by definition what the intent amounts to, even if it does not own every field of it.
	w.take(i, into)
	return nil
}

// take remembers that the object, as it is stored, is what the intent amounts to.
func (w *Manager) take(i *Intent, stored client.Object) {
	if len(i.strays(stored, w.name)) > 0 {
		return
	}
	w.remember(stored.GetUID(), memo{digest: i.digest, version: stored.GetResourceVersion(), owned: w.hash(i, stored)})
}

func (w *Manager) hash(i *Intent, live client.Object) uint64 {
	return maphash.String(w.seed, i.evidence(live, w.name))
}

// isReplaced recognizes the refusal to apply onto another object of the same name: its UID is not the one we sent.
func isReplaced(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

func (w *Manager) recall(uid types.UID) (memo, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, ok := w.memos[uid]
	if now := time.Now(); ok && now.Sub(m.used) > memoLimit/2 {
		m.used = now
		w.memos[uid] = m
	}
	return m, ok
}

func (w *Manager) remember(uid types.UID, m memo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.used = time.Now()
	w.memos[uid] = m
	if m.used.Sub(w.swept) > memoLimit {
		w.swept = m.used
		maps.DeleteFunc(w.memos, func(_ types.UID, old memo) bool { return m.used.Sub(old.used) > memoLimit })
	}
}
