package sdk_test

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Site is the custom resource of the examples.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   SiteSpec   `json:"spec"`
	Status SiteStatus `json:"status"`
}

type SiteSpec struct {
	Replicas int32  `json:"replicas"`
	Secret   string `json:"secret"`
}

type SiteStatus struct {
	conditions.Status `json:",inline"`

	Replicas int32 `json:"replicas"`
}

func (s *Site) CommonStatus() *conditions.Status { return &s.Status.Status }

func (s *Site) DeepCopyObject() runtime.Object {
	c := *s
	s.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	s.Status.Status.DeepCopyInto(&c.Status.Status)
	return &c
}

func addToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: "v1"}, &Site{})
	return nil
}

// newOperator returns an operator of Sites.
func newOperator(reconcile func(ctx context.Context, p *sdk.Pass[*Site]) error) *sdk.Operator[*Site] {
	return &sdk.Operator[*Site]{
		Name:        "site",
		AddToScheme: addToScheme,
		Owns: []client.Object{
			&appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{},
			&corev1.PersistentVolumeClaim{},
		},
		Observes:  []client.Object{&corev1.Pod{}},
		Reconcile: reconcile,
	}
}

func newSite() *Site {
	return &Site{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default", UID: "1"},
		Spec:       SiteSpec{Replicas: 2, Secret: "token"},
	}
}

// printPlan prints the plan of the function for a Site beside the live objects.
func printPlan(reconcile func(ctx context.Context, p *sdk.Pass[*Site]) error, live ...client.Object) {
	fmt.Print(sdk.Dry(context.Background(), newOperator(reconcile), newSite(), live...))
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

func statefulSet(name string) *appsv1.StatefulSet { return &appsv1.StatefulSet{ObjectMeta: meta(name)} }

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{"key": value}}
}

func secret(name string) *corev1.Secret { return &corev1.Secret{ObjectMeta: meta(name)} }
