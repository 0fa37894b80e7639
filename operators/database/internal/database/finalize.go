package database

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk"
)

// finalize blocks the deletion while the Database is protected, makes a last copy with the deletion policy Snapshot, and
// deletes the claims with the policies Snapshot and Delete. Everything else is left to garbage collection, which does not
// need the operator.
func (o *Options) finalize(ctx context.Context, p *sdk.Pass[*v1.Database]) error {
	db := p.Object
	if db.Spec.DeletionProtection {
		return sdk.Wait("DeletionProtected",
			"spec.deletionProtection is true: nothing is deleted before it is set to false")
	}
	if db.Spec.DeletionPolicy == v1.DeletionRetain {
		return nil
	}
	if keep, err := orphaned(p); keep || err != nil {
		return err
	}
	if db.Spec.DeletionPolicy == v1.DeletionSnapshot {
		if done, err := o.lastCopy(ctx, p); !done || err != nil {
			return err
		}
	}
	return deleteData(p)
}

// orphaned reports whether the user deletes the Database with orphan propagation, so that everything is to stay. The garbage
// collector may have removed its finalizer and the owner references already.
func orphaned(p *sdk.Pass[*v1.Database]) (bool, error) {
	db := p.Object
	if controllerutil.ContainsFinalizer(db, metav1.FinalizerOrphanDependents) {
		return true, nil
	}
	for name, kind := range map[string]schema.GroupVersionKind{
		desired.SetName(db):             appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		desired.HeadlessServiceName(db): corev1.SchemeGroupVersion.WithKind("Service"),
	} {
		like := &metav1.PartialObjectMetadata{ObjectMeta: objectMeta(name)}
		like.SetGroupVersionKind(kind)
		child, err := sdk.Ref(p, like)
		switch {
		case sdk.Reason(err) != "": // it does not exist
		case err != nil:
			return false, err
		case metav1.GetControllerOf(child) == nil && mayAdopt(db)(child):
			return true, nil
		}
	}
	return false, nil
}

// lastCopy makes the last copy, and reports whether it exists. First the server is closed: it restarts, as one member, and
// accepts the last dump alone. So no write is acknowledged that the dump does not have. Foreground deletion ends the server
// before: it starts again when the garbage collector has finished.
func (o *Options) lastCopy(ctx context.Context, p *sdk.Pass[*v1.Database]) (bool, error) {
	db := p.Object
	last := desired.LastSnapshot(db)
	live, exists := sdk.Live(p, &v1.DBSnapshot{ObjectMeta: last.ObjectMeta})
	done, _ := succeeded(live)
	options := []sdk.ApplyOption{sdk.CreateOnly(), sdk.Retain(), sdk.ReadyWhen(succeeded)}
	switch {
	case exists && (!isLastSnapshot(live, last) || live.CreationTimestamp.Before(db.DeletionTimestamp)):
		return false, sdk.Wait("ForeignSnapshot",
			"DBSnapshot %s is not the one that is made for the last copy: delete it", last.Name)
	case controllerutil.ContainsFinalizer(db, metav1.FinalizerDeleteDependents):
		return false, sdk.Wait("Closing", "foreground deletion ends the server, which starts again for the last copy")
	case !done:
		db.Spec.Hibernate = false // the copy needs a running server
		db.Spec.Replicas = new(int32(1))
		db.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = "Retain"
		if err := o.reconcile(ctx, p); err != nil {
			return false, err
		}
		if !exists && !o.closed(p) {
			options = append(options, sdk.HoldBack(sdk.Wait("Closing", "the server restarts, to accept nothing but the last dump")))
		}
	}
	sdk.Apply(p, last, options...)
	return done, nil
}

// isLastSnapshot reports whether the existing object copies what the operator wants to be copied. Another user may have
// created an object of that name, also one from before the deletion, which lacks later writes.
func isLastSnapshot(live, want *v1.DBSnapshot) bool {
	return equality.Semantic.DeepEqual(live.Spec.Source, want.Spec.Source) && live.Spec.Method == v1.MethodDump &&
		equality.Semantic.DeepEqual(live.Spec.Storage, want.Spec.Storage) && live.Spec.Verify == want.Spec.Verify &&
		(live.Spec.PgDump == nil || live.Spec.PgDump.Format != "plain" && live.Spec.PgDump.Image == "")
}

// closed reports whether the primary runs with the template that accepts the last dump alone.
func (o *Options) closed(p *sdk.Pass[*v1.Database]) bool {
	set, _ := sdk.Live(p, &appsv1.StatefulSet{ObjectMeta: objectMeta(desired.SetName(p.Object))})
	server := status.Members(p.Object, set, sdk.Observed(p, &corev1.Pod{}))
	return server.PrimaryReady() && slices.ContainsFunc(server.Pods, func(pod *corev1.Pod) bool {
		return pod.Name == desired.PodName(p.Object, 0) && desired.IsClosed(&pod.Spec)
	})
}

// deleteData stops the server, and then makes the claims end with the Database: only from here on they have an owner
// reference. With the policy Delete the dumps and the credentials end, too.
func deleteData(p *sdk.Pass[*v1.Database]) error {
	db := p.Object
	existing, err := findClaims(p)
	if err != nil {
		return err
	}
	stopped, err := stopServer(p)
	if err != nil {
		return err
	}
	size, err := resource.ParseQuantity(db.Spec.Storage) // for a claim that a user deletes at this moment
	if err != nil {
		return sdk.Invalid("InvalidSize", "spec.storage: %v", err)
	}
	claims := make([]*corev1.PersistentVolumeClaim, 0, desired.MaxMembers+1)
	for member := range desired.MaxMembers {
		claims = append(claims, desired.DataClaim(db, member, size))
	}
	if db.Spec.DeletionPolicy == v1.DeletionDelete {
		claims = append(claims, desired.BackupClaim(db, size))
		secret := &corev1.Secret{ObjectMeta: objectMeta(desired.CredentialsName(db))}
		if _, exists := sdk.Live(p, secret.DeepCopy()); exists {
			sdk.Apply(p, secret, sdk.CreateOnly(), sdk.After(stopped...))
		}
	}
	for _, claim := range claims {
		options := []sdk.ApplyOption{sdk.After(stopped...), sdk.ReadyWhen(notLost)}
		live, isChild := sdk.Live(p, claim.DeepCopy())
		switch {
		case isChild:
			claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: live.Spec.AccessModes, Resources: live.Spec.Resources}
		case existing[claim.Name] != nil && existing[claim.Name].Annotations[adoption.Annotation] == db.Name:
			// The StatefulSet controller has created it.
			options = append(options, sdk.CreateOnly(), adopt(db))
		default:
			continue
		}
		delete(claim.Labels, desired.ProtectedLabel)
		sdk.Apply(p, claim, options...)
	}
	return nil
}

// stopServer stops the members and returns the StatefulSet to wait for, if there is one. The pods outlive a StatefulSet that
// is being replaced: they would run on after the deletion, and keep their claims.
func stopServer(p *sdk.Pass[*v1.Database]) ([]sdk.AnyChild, error) {
	db := p.Object
	live, exists := sdk.Live(p, &appsv1.StatefulSet{ObjectMeta: objectMeta(desired.SetName(db))})
	switch {
	case exists && live.DeletionTimestamp == nil:
		return []sdk.AnyChild{sdk.Apply(p, desired.Stopped(live), sdk.ReadyWhen(noPods))}, nil
	case exists:
		return nil, sdk.Wait("Stopping", "StatefulSet %s is being deleted, before its data are deleted", live.Name)
	}
	server := status.Members(db, live, sdk.Observed(p, &corev1.Pod{}))
	for _, pod := range server.Pods {
		owner := metav1.GetControllerOf(pod)
		switch {
		case pod.DeletionTimestamp != nil:
		case owner == nil:
			return []sdk.AnyChild{sdk.Apply(p, desired.Adopter(db), adopt(db), sdk.ReadyWhen(noPods))}, nil
		case owner.Kind == "StatefulSet" && owner.Name == desired.SetName(db):
			return nil, sdk.Wait("Stopping", "pod %s is left of a StatefulSet that was deleted", pod.Name)
		}
	}
	return nil, nil
}

// noPods is the readiness of a StatefulSet that is stopped.
func noPods(set *appsv1.StatefulSet) (bool, string) {
	if set.Status.ObservedGeneration < set.Generation || set.Status.Replicas > 0 {
		return false, "the server is being stopped before its data are deleted"
	}
	return true, ""
}

// succeeded is the readiness of the last copy.
func succeeded(last *v1.DBSnapshot) (bool, string) {
	switch last.Status.Phase {
	case v1.SnapshotSucceeded:
		return true, ""
	case v1.SnapshotFailed:
		return false, "DBSnapshot " + last.Name + " failed, so the data are still there: delete it to have another one made, or " +
			"set spec.deletionPolicy to Retain or Delete"
	default:
		return false, "DBSnapshot " + last.Name + ", the last one, is being made"
	}
}
