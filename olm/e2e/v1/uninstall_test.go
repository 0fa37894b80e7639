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

// uninstall deletes the ClusterExtension, and sees what that deletes: the definitions, too, and with them every object of
// their kinds. An object with a finalizer is held, as is its definition, because the operator that would see to it is
// deleted at the same time; somebody has to remove the finalizer.
//
// It does not help to orphan what was installed (kubectl delete --cascade=orphan): OLM, which still looks after it, makes
// the ClusterExtension the owner of a definition again in between, and then it is garbage.
func (i *installation) uninstall(version string, objects []*unstructured.Unstructured) {
	i.t.Helper()
	defer i.leave()
	definitions := i.definitions(version)
	account := &corev1.ServiceAccount{}
	account.Name, account.Namespace = i.deployment(version).Spec.Template.Spec.ServiceAccountName, i.home
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
	for _, o := range i.held(objects) {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
		if err := i.k.Client.Patch(i.t.Context(), o, free); client.IgnoreNotFound(err) != nil { // the operator was quick
			i.t.Fatal(err)
		}
	}
	for _, o := range definitions {
		i.k.Eventually(o, testkit.Gone())
	}
}

// held waits until all objects are deleted, and returns those that a finalizer holds.
func (i *installation) held(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
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

// leave deletes what else was in the manifests, so that the next test can apply them.
func (i *installation) leave() {
	i.t.Helper()
	for _, o := range i.applied {
		if o.GetKind() == "Namespace" || o.GetKind() == "ClusterRoleBinding" {
			i.k.Delete(o)
			i.k.Eventually(o, testkit.Gone())
		}
	}
}
