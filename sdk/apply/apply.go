package apply

import (
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

// ErrStale means that the object was created, replaced or deleted since it was read. Read it again and retry.
var ErrStale = errors.New("the object was created, replaced or deleted meanwhile")

// OwnershipError means that an object of the desired name exists and is not controlled by the owner of the intent.
type OwnershipError struct {
	// Object identifies the object as "Kind namespace/name".
	Object string
	// UID is the UID of the existing object.
	UID types.UID
	// Controller is its controller, nil if it has none.
	Controller *metav1.OwnerReference
	// LabeledOwner is the name of the owner in its owner annotation (see [LabeledBy]), "" if there is none.
	LabeledOwner string
	// Former reports whether the object belongs to an earlier owner with the kind, namespace and name of the intent's owner.
	Former bool
}

// Error returns the owner of the object and the fix.
func (e *OwnershipError) Error() string {
	owner := e.LabeledOwner
	if e.Controller != nil {
		owner = e.Controller.Kind + " " + e.Controller.Name
	}
	if owner == "" {
		return e.Object + " exists and has no owner: delete it, or use another name"
	}
	if e.Former {
		owner = "a former " + owner
	}
	return fmt.Sprintf("%s exists and belongs to %s: delete it, or use another name", e.Object, owner)
}

// Result is the effect of an apply.
type Result string

// The possible results of an apply.
const (
	Unchanged Result = "unchanged"
	Created   Result = "created"
	Updated   Result = "updated"
)

// FieldManager applies objects as one field manager. It is safe for concurrent use. The zero value is not usable; see
// [NewFieldManager].
type FieldManager struct {
	name       string
	seed       maphash.Seed
	mu         sync.Mutex
	memos      map[types.UID]memo
	lastExpiry time.Time
}

// memo records that an intent was converged, so that the check of an unchanged object costs two comparisons.
type memo struct {
	digest  string
	version string // resourceVersion of the last check
	owned   uint64 // hash of the ownership record
	used    time.Time
}

// memoTTL is the time after which an unused memo is dropped, such as that of a deleted object. A dropped memo costs one
// evaluation of the managedFields entry, as after a restart.
const memoTTL = time.Hour

// NewFieldManager returns the field manager of that name. One operator has one name, and keeps it between versions.
func NewFieldManager(name string) *FieldManager {
	return &FieldManager{name: name, seed: maphash.MakeSeed(), memos: map[types.UID]memo{}, lastExpiry: time.Now()}
}

// Name returns the name of the field manager, as in metadata.managedFields.
func (mgr *FieldManager) Name() string { return mgr.name }

// Apply creates or updates the object and stores the API server's response in desired. It reads the present object through
// the client, usually from a cache, and makes no request if the object is converged. With [ControlledBy] or [LabeledBy], an
// object of that name without this owner is never written; Apply returns an [OwnershipError].
//
// Errors: [ErrStale] if the read was outdated, and the errors of the API server.
func (mgr *FieldManager) Apply(ctx context.Context, c client.Client, desired client.Object, opts ...Option) (Result, error) {
	intent, err := NewIntent(desired, c.Scheme(), opts...)
	if err != nil {
		return "", err
	}
	result, stored, err := mgr.applyTo(ctx, c, intent, object.Empty(desired))
	if err != nil {
		return "", err
	}
	object.Assign(desired, stored)
	return result, nil
}

func (mgr *FieldManager) applyTo(
	ctx context.Context, c client.Client, i *Intent, live client.Object,
) (Result, client.Object, error) {
	stored := object.Empty(live)
	err := c.Get(ctx, i.Key, live)
	switch {
	case apierrors.IsNotFound(err):
		return Created, stored, mgr.Create(ctx, c, i, stored)
	case err != nil:
		return "", nil, fmt.Errorf("reading %s: %w", i, err)
	}
	if err := i.CheckOwnership(live); err != nil {
		return "", nil, err
	}
	if mgr.Converged(i, live) {
		return Unchanged, live, nil
	}
	return Updated, stored, mgr.Update(ctx, c, i, live, stored)
}

// CheckOwnership returns an [OwnershipError] if the owner of the intent does not control the object. The owner controls it
// by a controller reference with its UID (see [ControlledBy]), or by an owner label with its UID and no controller (see
// [LabeledBy]). Both forms are accepted, so that an object can change from one to the other. Without an owner every object
// is accepted.
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
		Former: i.isFormerOwner(controller, live),
	}
}

// Converged reports whether live has the state of the intent, so that no request is needed. It makes no request. The object
// may come from a cache that drops the managedFields of other managers (see [TrimManagedFields]).
func (mgr *FieldManager) Converged(i *Intent, live client.Object) bool {
	if live.GetAnnotations()[DigestAnnotation] != i.digest || !i.hasFinalizers(live) {
		return false
	}
	known, ok := mgr.lookupMemo(live.GetUID())
	if ok && known.digest == i.digest && known.version == live.GetResourceVersion() {
		return true
	}
	now := memo{digest: i.digest, version: live.GetResourceVersion(), owned: mgr.hash(i, live)}
	sameDigest := ok && known.digest == now.digest
	if sameDigest && known.owned == now.owned || mgr.ownsIntent(i, live, !sameDigest) {
		mgr.storeMemo(live.GetUID(), now)
		return true
	}
	return false
}

// ownsIntent reports whether the ownership record covers the intent. For atomic fields of an object with metadata alone the
// record is inconclusive and trust is the answer: certainty would cost one apply.
func (mgr *FieldManager) ownsIntent(i *Intent, live client.Object, trust bool) bool {
	_, partial := live.(*metav1.PartialObjectMetadata)
	whole := func(at fieldpath.Path, v any) bool {
		if partial {
			return trust
		}
		return hasValues(live, at, v)
	}
	return len(i.foreignKeys(live, mgr.name)) == 0 && OwnedFields(live, mgr.name).covers(i.Fields(), whole)
}

// hasFinalizers reports whether the object has the finalizers of the intent and no owner reference against the intent.
func (i *Intent) hasFinalizers(live client.Object) bool {
	return !i.hasOwnerReference(live) && !slices.ContainsFunc(i.finalizers, func(name string) bool {
		return !slices.Contains(live.GetFinalizers(), name)
	})
}

// hasOwnerReference reports whether the object has an owner reference although the intent has an owner label: garbage
// collection would delete it.
func (i *Intent) hasOwnerReference(live client.Object) bool {
	return i.labeled && slices.ContainsFunc(live.GetOwnerReferences(), i.isOwner)
}

func (i *Intent) isOwner(r metav1.OwnerReference) bool { return r.UID == i.owner }

// MarkConverged records that a converged object is still converged after another write of the caller that changed no field
// of the intent, such as one of package finalizer. stored is the response to that write. The write must have been limited to
// the version that [FieldManager.Converged] or an update confirmed.
func (mgr *FieldManager) MarkConverged(i *Intent, stored client.Object) {
	mgr.rememberStored(i, stored)
}

// Create applies the intent to an object that does not exist and stores the response in into. into must have the type of the
// object and should be new, because the response is decoded into it. It returns [ErrStale] if the object exists: nothing was
// written then.
func (mgr *FieldManager) Create(ctx context.Context, c client.Client, i *Intent, into client.Object) error {
	body, err := i.forCreation()
	if err != nil {
		return err
	}
	return mgr.send(ctx, c, i, body, into)
}

// Update applies the intent to exactly the live object and stores the response in into. It returns [ErrStale] if that object
// was deleted: it is not created again. It does not check the ownership (see [Intent.CheckOwnership]), but it writes an
// object without this owner only in the version of live, and returns [ErrStale] for a later one.
func (mgr *FieldManager) Update(ctx context.Context, c client.Client, i *Intent, live, into client.Object) error {
	body, err := i.forUpdate(live, OwnedFields(live, mgr.name))
	if err != nil {
		return err
	}
	if err := mgr.removeForeign(ctx, c, i, live); err != nil {
		return err
	}
	return mgr.send(ctx, c, i, body, into)
}

// SetOwnership adds the labels, annotations, finalizers and the owner of the intent to exactly the live object, and changes
// nothing else. Fields that the manager applied earlier remain; an apply of the metadata alone would remove them. The
// response is stored in into. It returns [ErrStale] if the object has changed.
func (mgr *FieldManager) SetOwnership(ctx context.Context, c client.Client, i *Intent, live, into client.Object) error {
	if OwnedFields(live, mgr.name).String() == "" { // an apply would remove nothing
		return mgr.Update(ctx, c, i, live, into)
	}
	signed, m := object.Copy(live), i.withFinalizers()
	labels, annotations, references := signed.GetLabels(), signed.GetAnnotations(), signed.GetOwnerReferences()
	for key, value := range m.Labels {
		setEntry(&labels, key, value)
	}
	for key, value := range m.Annotations {
		if key != DigestAnnotation { // the rest of the intent is not applied
			setEntry(&annotations, key, value)
		}
	}
	if !i.labeled {
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
	return staleError(i, c.Patch(ctx, into, client.RawPatch(types.MergePatchType, body), client.FieldOwner(mgr.name)))
}

// removeForeign removes the foreign keys in exclusive maps of this very version, and the owner reference if the intent has
// an owner label. An apply cannot remove fields of other managers.
func (mgr *FieldManager) removeForeign(ctx context.Context, c client.Client, i *Intent, live client.Object) error {
	foreign := i.foreignKeys(live, mgr.name)
	ours := i.CheckOwnership(live) == nil // an unowned object must keep the version that was checked
	if len(foreign) == 0 && !i.hasOwnerReference(live) || !ours {
		return nil
	}
	metadata := map[string]any{"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion()}
	if i.hasOwnerReference(live) {
		metadata["ownerReferences"] = slices.DeleteFunc(slices.Clone(live.GetOwnerReferences()), i.isOwner)
	}
	change := map[string]any{"metadata": metadata}
	for _, p := range foreign {
		p.set(change, nil)
	}
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding what to remove from %s: %w", i, err)
	}
	into := &metav1.PartialObjectMetadata{} // the response is not needed
	into.SetGroupVersionKind(i.GVK)
	into.SetName(i.Key.Name)
	into.SetNamespace(i.Key.Namespace)
	err = c.Patch(ctx, into, client.RawPatch(types.MergePatchType, body), client.FieldOwner(mgr.name))
	return staleError(i, err)
}

// staleError adds [ErrStale] to an error that means that the object has changed.
func staleError(i *Intent, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err) || isReplaced(err):
		return fmt.Errorf("applying %s: %w", i, errors.Join(ErrStale, err))
	default:
		return fmt.Errorf("applying %s: %w", i, err)
	}
}

func (mgr *FieldManager) send(ctx context.Context, c client.Client, i *Intent, body []byte, into client.Object) error {
	into.SetName(i.Key.Name)
	into.SetNamespace(i.Key.Namespace)
	patch := client.RawPatch(types.ApplyPatchType, body)
	if err := staleError(i, c.Patch(ctx, into, patch, client.FieldOwner(mgr.name), client.ForceOwnership)); err != nil {
		return err
	}
	// The stored object is the state of the intent by definition, even if the manager does not own every field of it.
	mgr.rememberStored(i, into)
	return nil
}

// rememberStored records that the stored object is converged.
func (mgr *FieldManager) rememberStored(i *Intent, stored client.Object) {
	if len(i.foreignKeys(stored, mgr.name)) > 0 {
		return
	}
	mgr.storeMemo(stored.GetUID(), memo{digest: i.digest, version: stored.GetResourceVersion(), owned: mgr.hash(i, stored)})
}

func (mgr *FieldManager) hash(i *Intent, live client.Object) uint64 {
	return maphash.String(mgr.seed, i.ownershipRecord(live, mgr.name))
}

// isReplaced reports whether an apply was rejected because another object of the same name exists, with another UID.
func isReplaced(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

func (mgr *FieldManager) lookupMemo(uid types.UID) (memo, bool) {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	m, ok := mgr.memos[uid]
	if now := time.Now(); ok && now.Sub(m.used) > memoTTL/2 {
		m.used = now
		mgr.memos[uid] = m
	}
	return m, ok
}

func (mgr *FieldManager) storeMemo(uid types.UID, m memo) {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	m.used = time.Now()
	mgr.memos[uid] = m
	if m.used.Sub(mgr.lastExpiry) > memoTTL {
		mgr.lastExpiry = m.used
		maps.DeleteFunc(mgr.memos, func(_ types.UID, old memo) bool { return m.used.Sub(old.used) > memoTTL })
	}
}
