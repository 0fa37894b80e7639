// Package myapp runs an image for each MyApp, with a volume and, if it is asked for, a Service, an Ingress and a
// HorizontalPodAutoscaler.
//
// This file is the whole operator. What the children look like is in internal/desired, what the status says in
// internal/report, and how both become requests is the SDK's business.
package myapp

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/report"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Operator runs what each MyApp asks for.
var Operator = &sdk.Operator[*v1.MyApp]{
	Name:        "myapp",
	AddToScheme: v1.AddToScheme,
	Owns: []client.Object{
		&corev1.PersistentVolumeClaim{}, &appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{},
		&autoscalingv2.HorizontalPodAutoscaler{},
	},
	Observes:       []client.Object{&corev1.Pod{}},
	Reconcile:      reconcile,
	Finalize:       retain,
	NeedsFinalizer: retains,
	Paused:         func(app *v1.MyApp) bool { return app.Spec.Paused },
}

// RecreateAnnotation with the value "true" lets the operator make the Deployment anew, without ending its pods, if it has a
// selector that cannot be changed to ours, as one from a backup may have.
const RecreateAnnotation = "mycompany.com/recreate"

func reconcile(_ context.Context, p *sdk.Pass[*v1.MyApp]) error {
	app := p.Object
	claim, alone, err := volume(p)
	if err != nil {
		return err
	}
	report.Volume(app, claim)
	name := ""
	if claim != nil && app.Spec.Storage.IsEnabled() {
		name = claim.Name
	}
	deployment, err := desired.Deployment(app, name, alone)
	if err != nil {
		return sdk.Invalid("InvalidPodTemplate", "%v: correct it", err)
	}
	child := sdk.Apply(p, deployment, deploymentOptions(app)...)
	set, pods := child.Live(), sdk.Observed(p, &corev1.Pod{})
	report.Pods(app, set, pods)
	if reason, message := report.Trouble(pods); reason != "" {
		p.NotReady(reason, "%s", message)
	}
	app.Status.URL = desired.URL(app, traffic(p))
	p.Report(func(children []conditions.Child) { report.Children(p.Object, set, children) })
	before := p.Object.Status.Phase
	p.OnStored(func() { counted(before, p.Object) })
	return nil
}

// volume sees to the claim. It returns the claim as it is, nil if there is none, and whether one node at a time can mount
// it. A claim of our own stays when the storage is disabled: nothing but the end of the MyApp ends its data.
func volume(p *sdk.Pass[*v1.MyApp]) (claim *corev1.PersistentVolumeClaim, alone bool, err error) {
	storage := &p.Object.Spec.Storage
	if storage.ExistingClaim != "" {
		if !storage.IsEnabled() {
			return nil, false, nil
		}
		theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: storage.ExistingClaim}}
		if claim, err = sdk.Ref(p, theirs); err != nil {
			return nil, false, err
		}
		return claim, desired.Alone(claim.Spec.AccessModes), nil
	}
	want, err := desired.Claim(p.Object)
	if err != nil {
		return nil, false, sdk.Invalid("InvalidSize", "%v", err)
	}
	was, exists := sdk.Live(p, want.DeepCopy())
	if !exists && !storage.IsEnabled() {
		return nil, false, nil
	}
	options := []sdk.ApplyOption{sdk.AdoptIf(left)}
	if exists {
		desired.KeepSize(want, was)
	} else { // one that was left is seen once it is ours
		options = append(options, sdk.CreateOnly())
	}
	live := sdk.Apply(p, want, options...).Live()
	live.Name = want.Name
	return live, storage.IsEnabled() && desired.Alone(storage.AccessModes), nil
}

// left reports whether a claim was left by a MyApp with RetainData.
func left(claim client.Object) bool { return claim.GetLabels()[sdk.ManagedByLabel] == "myapp" }

func deploymentOptions(app *v1.MyApp) []sdk.ApplyOption {
	var options []sdk.ApplyOption
	if app.Spec.Replicas == nil { // others decide
		options = append(options, sdk.Disown("spec.replicas"))
	}
	if app.Annotations[RecreateAnnotation] == "true" {
		options = append(options, sdk.OnImmutable(sdk.RecreateOrphan))
	}
	return options
}

// traffic sees to what leads to the pods, and decides how many there are. It returns the Service as it is, nil if none is
// asked for.
func traffic(p *sdk.Pass[*v1.MyApp]) *corev1.Service {
	var service *corev1.Service
	if p.Object.Spec.Service.Enabled && len(p.Object.Spec.Ports) > 0 {
		service = sdk.Apply(p, desired.Service(p.Object)).Live()
	}
	if p.Object.Spec.Ingress.Enabled && service != nil {
		sdk.Apply(p, desired.Ingress(p.Object))
	}
	if p.Object.Spec.Autoscaling != nil {
		sdk.Apply(p, desired.Autoscaler(p.Object))
	}
	return service
}

// retains reports whether the data must outlive the MyApp, which garbage collection would not let it do.
func retains(app *v1.MyApp) bool { return app.Spec.DeletionPolicy == v1.DeletionRetainData }

func retain(_ context.Context, p *sdk.Pass[*v1.MyApp]) error {
	p.KeepChildren(&corev1.PersistentVolumeClaim{})
	return nil
}
