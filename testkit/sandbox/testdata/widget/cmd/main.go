// Command widget is an operator in the style of other scaffolds: it is configured by flags. It writes its configuration
// into the status of each Widget.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	metrics := flag.String("metrics-bind-address", ":8080", "")
	probes := flag.String("health-probe-bind-address", ":8081", "")
	elect := flag.Bool("leader-elect", false, "")
	greeting := flag.String("greeting", "", "")
	flag.Parse()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics: server.Options{BindAddress: *metrics}, HealthProbeBindAddress: *probes,
		LeaderElection: *elect, LeaderElectionID: "widget", LeaderElectionReleaseOnCancel: true,
		LeaderElectionNamespace: os.Getenv("LEADER_ELECTION_NAMESPACE"),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		log.Fatal(err)
	}
	r := &reconciler{Client: mgr.GetClient(), secrets: mgr.GetAPIReader(), greeting: *greeting}
	if err := ctrl.NewControllerManagedBy(mgr).For(newWidget()).Complete(r); err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

func newWidget() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "testkit.homeostat.dev", Version: "v1", Kind: "Widget"})
	return u
}

type reconciler struct {
	client.Client
	secrets  client.Reader
	greeting string
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := newWidget()
	if err := r.Get(ctx, req.NamespacedName, w); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := r.secrets.List(ctx, &corev1.SecretList{})
	text := fmt.Sprintf("%s %s from %s, secrets forbidden: %v", r.greeting, os.Getenv("GREETED"), os.Getenv("NAMESPACE"),
		apierrors.IsForbidden(err))
	old, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions")
	if len(old) == 1 && strings.HasSuffix(fmt.Sprint(old[0].(map[string]any)["message"]), text) {
		return reconcile.Result{}, nil
	}
	before := w.DeepCopy()
	condition := map[string]any{
		"type": "Ready", "status": "True", "reason": "Greeted", "message": text,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": w.GetGeneration(),
	}
	if err := unstructured.SetNestedSlice(w.Object, []any{condition}, "status", "conditions"); err != nil {
		return reconcile.Result{}, err
	}
	if err := unstructured.SetNestedField(w.Object, os.Getenv("POD"), "status", "by"); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.Status().Patch(ctx, w, client.MergeFrom(before))
}
