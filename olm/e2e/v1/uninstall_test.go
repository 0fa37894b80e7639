package v1_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// uninstall deletes the ClusterExtension. That deletes the definitions as well, and with them every object of their kinds.
// An object with a finalizer stays, and so does its definition, because the operator that would remove the finalizer is
// deleted at the same time. The finalizer has to be removed by hand.
//
// Orphaning the installed objects (kubectl delete --cascade=orphan) does not help. OLM still reconciles them and makes the
// ClusterExtension the owner of a definition again, and then the definition is garbage-collected.
func (i *installation) uninstall(version string, objects []*unstructured.Unstructured) {
	i.t.Helper()
	defer i.cleanUp()
	definitions := i.definitions(version)
	account := &corev1.ServiceAccount{}
	account.Name = i.deployment(version).Spec.Template.Spec.ServiceAccountName
	account.Namespace = i.home
	i.k.Delete(i.extension)
	for _, o := range []client.Object{i.extension, i.workload(version), account} {
		i.k.Eventually(o, testkit.Gone())
	}
	i.k.Wait("the operator does not run any more", func(ctx context.Context) error {
		var pods corev1.PodList
		err := i.k.Client.List(ctx, &pods, client.InNamespace(i.home))
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return err
	})
	var roles rbacv1.ClusterRoleList
	i.k.Wait("no role is left", func(ctx context.Context) error {
		err := i.k.Client.List(ctx, &roles, client.MatchingLabels{"olm.operatorframework.io/owner-name": i.name})
		if err == nil && len(roles.Items) > 0 {
			err = fmt.Errorf("there are %d", len(roles.Items))
		}
		return err
	})
	if len(definitions) == 0 {
		for _, o := range objects {
			i.k.Get(o)
		}
		return
	}
	for _, o := range i.waitHeld(objects) {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		if err := i.k.Client.Patch(i.t.Context(), o, free); client.IgnoreNotFound(err) != nil { // may be deleted
			i.t.Fatal(err)
		}
	}
	for _, o := range definitions {
		i.k.Eventually(o, testkit.Gone())
	}
}

// waitHeld waits until all objects are deleted, and returns those that a finalizer holds.
func (i *installation) waitHeld(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	i.t.Helper()
	var held []*unstructured.Unstructured
	i.k.Wait("all objects are deleted", func(ctx context.Context) error {
		held = nil
		for _, o := range objects {
			err := i.k.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			switch {
			case apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err):
			case err != nil:
				return err
			case o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) == 0:
				return fmt.Errorf("%s is there", o.GetName())
			default:
				held = append(held, o)
			}
		}
		return nil
	})
	if len(held) > 0 {
		for _, o := range i.definitions(i.Current) {
			i.k.Eventually(o, testkit.Condition("Terminating", metav1.ConditionTrue))
		}
	}
	return held
}

// cleanUp deletes the other objects of the manifests, so that the next test can apply them.
func (i *installation) cleanUp() {
	i.t.Helper()
	for _, o := range i.applied {
		if o.GetKind() == "Namespace" || o.GetKind() == "ClusterRoleBinding" {
			i.k.Delete(o)
			i.k.Eventually(o, testkit.Gone())
		}
	}
}
