// Command kubebuilder is the candidate on kubebuilder's scaffold, written with care: typed, cached, CreateOrUpdate for each
// child, owner references, conditions, and no write of an unchanged status.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/sdk/bench/work"
)

func main() {
	work.EnableProfiling()
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(work.AddToScheme(scheme))
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cfg.QPS = -1 // as for every candidate
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: "0",
		Metrics: metricsserver.Options{
			BindAddress: "0", SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	r := &reconciler{Client: mgr.GetClient(), scheme: scheme}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&work.Database{}).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.PersistentVolumeClaim{}).
		Owns(&batchv1.CronJob{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

const workers = 8

type reconciler struct {
	client.Client
	scheme *runtime.Scheme
}

// Reconcile creates or updates the children and writes the status.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &work.Database{}
	if err := r.Get(ctx, req.NamespacedName, d); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	set, err := r.statefulSet(ctx, d)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.service(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.claim(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.backup(ctx, d); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.status(ctx, d, set)
}

// Each of the following methods sets only the desired fields: to replace a whole spec would remove the API server's defaults
// and cause a write in every reconcile.

func (r *reconciler) statefulSet(ctx context.Context, d *work.Database) (*appsv1.StatefulSet, error) {
	want := work.StatefulSet(d)
	o := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	return o, r.upsert(ctx, d, o, want.Labels, func() {
		o.Spec.Replicas = want.Spec.Replicas
		if o.CreationTimestamp.IsZero() { // these fields are immutable
			o.Spec.ServiceName = want.Spec.ServiceName
			o.Spec.Selector = want.Spec.Selector
		}
		o.Spec.Template.Labels = want.Spec.Template.Labels
		pod, wanted := &o.Spec.Template.Spec, want.Spec.Template.Spec
		if len(pod.Containers) != 1 {
			pod.Containers = wanted.Containers
		}
		c, container := &pod.Containers[0], wanted.Containers[0]
		c.Name = container.Name
		c.Image = container.Image
		c.Resources = container.Resources
		c.VolumeMounts = container.VolumeMounts
		if len(c.Ports) != 1 {
			c.Ports = container.Ports
		}
		c.Ports[0].Name = container.Ports[0].Name
		c.Ports[0].ContainerPort = container.Ports[0].ContainerPort
		pod.Volumes = wanted.Volumes
	})
}

func (r *reconciler) service(ctx context.Context, d *work.Database) error {
	want := work.Service(d)
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	return r.upsert(ctx, d, o, want.Labels, func() {
		o.Spec.Selector = want.Spec.Selector
		if len(o.Spec.Ports) != 1 {
			o.Spec.Ports = want.Spec.Ports
		}
		o.Spec.Ports[0].Name = want.Spec.Ports[0].Name
		o.Spec.Ports[0].Port = want.Spec.Ports[0].Port
	})
}

func (r *reconciler) claim(ctx context.Context, d *work.Database) error {
	want := work.Claim(d)
	o := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	return r.upsert(ctx, d, o, want.Labels, func() {
		if o.CreationTimestamp.IsZero() {
			o.Spec = want.Spec
		}
		o.Spec.Resources.Requests = want.Spec.Resources.Requests
	})
}

func (r *reconciler) backup(ctx context.Context, d *work.Database) error {
	want := work.Backup(d)
	o := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	return r.upsert(ctx, d, o, want.Labels, func() {
		o.Spec.Schedule = want.Spec.Schedule
		pod, wanted := &o.Spec.JobTemplate.Spec.Template.Spec, want.Spec.JobTemplate.Spec.Template.Spec
		pod.RestartPolicy = wanted.RestartPolicy
		if len(pod.Containers) != 1 {
			pod.Containers = wanted.Containers
		}
		c, container := &pod.Containers[0], wanted.Containers[0]
		c.Name = container.Name
		c.Image = container.Image
		c.Command = container.Command
	})
}

// upsert creates or updates one child.
func (r *reconciler) upsert(
	ctx context.Context, d *work.Database, o client.Object, labels map[string]string, mutate func(),
) error {
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, o, func() error {
		all := o.GetLabels()
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, labels)
		o.SetLabels(all)
		mutate()
		return controllerutil.SetControllerReference(d, o, r.scheme)
	})
	if err != nil {
		return fmt.Errorf("bringing about %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// status writes the status if it has changed.
func (r *reconciler) status(ctx context.Context, d *work.Database, set *appsv1.StatefulSet) error {
	before := d.Status.DeepCopy()
	d.Status.ObservedGeneration = d.Generation
	d.Status.State = work.StateProvisioned
	d.Status.ReadyReplicas = set.Status.ReadyReplicas
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", ObservedGeneration: d.Generation,
		Message: "waiting for the pods of StatefulSet " + set.Name,
	}
	if set.Status.ReadyReplicas >= max(d.Spec.Replicas, 1) {
		ready.Status = metav1.ConditionTrue
		ready.Reason = "Succeeded"
		ready.Message = ""
	}
	meta.SetStatusCondition(&d.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, &d.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, d); err != nil {
		return fmt.Errorf("writing the status of %s: %w", d.Name, err)
	}
	return nil
}
