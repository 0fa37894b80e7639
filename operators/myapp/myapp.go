// Package myapp runs an image for each MyApp, with a volume and, if it is asked for, a Service, an Ingress and a
// HorizontalPodAutoscaler.
//
// This file is the whole operator. What the children look like is in internal/desired, what the status says in
// internal/report, and how both become requests is the SDK's business.
package myapp

import (
	"context"
	"strings"

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
	Doc:         "The myapp operator runs an image with a volume and, if asked for, a Service, an Ingress and an autoscaler.",
	AddToScheme: v1.AddToScheme,
	Owns: []client.Object{
		&corev1.PersistentVolumeClaim{}, &appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{},
		&autoscalingv2.HorizontalPodAutoscaler{},
	},
	Observes:  []client.Object{&corev1.Pod{}},
	Reconcile: reconcile,
	Paused:    func(app *v1.MyApp) bool { return app.Spec.Paused },
}

// The annotations that let the operator do what it would otherwise only ask for, with the value "true".
const (
	// RecreateAnnotation lets it make the Deployment anew, without ending its pods, if it has a selector that cannot be
	// changed to ours, as one from a backup may have.
	RecreateAnnotation = "mycompany.com/recreate"
	// AdoptAnnotation lets it take over what has the name of one of its objects and no controller, as what was restored from
	// a backup may. From then on that is changed, and deleted, like what the operator made.
	AdoptAnnotation = "mycompany.com/adopt"
)

func reconcile(_ context.Context, p *sdk.Pass[*v1.MyApp]) error {
	app := p.Object
	data, err := volume(p)
	if err != nil {
		return held(p, err)
	}
	report.Volume(app, data.claim)
	name := ""
	if data.claim != nil && app.Spec.Storage.IsEnabled() {
		name = data.claim.Name
	}
	deployment, err := desired.Deployment(app, name, data.alone)
	if err != nil {
		return held(p, sdk.Invalid("InvalidPodTemplate", "%v: correct it", err))
	}
	child := sdk.Apply(p, deployment, append(deploymentOptions(app), sdk.AfterCreated(data.ours...))...)
	set := child.Live()
	reason, trouble := pods(p, set)
	if reason != "" {
		p.NotReady(reason, "%s", trouble)
	}
	app.Status.URL = desired.URL(app, traffic(p, child))
	p.Report(func(children []conditions.Child) { report.Children(p.Object, set, children, trouble) })
	count(p)
	return nil
}

// count counts the phase if it is another one when the status was stored.
func count(p *sdk.Pass[*v1.MyApp]) {
	before := p.Object.Status.Phase
	p.OnStatusUpdated(func() { counted(before, p.Object) })
}

// held says in the status what keeps the operator from planning anything, and returns it. What has no reason, as when the
// API server does not answer, is not worth telling.
func held(p *sdk.Pass[*v1.MyApp], why error) error {
	reason := sdk.Reason(why)
	if reason == "" {
		return why
	}
	set, _ := sdk.Live(p, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name}})
	count(p)
	pods(p, set)
	report.Held(p.Object, set, reason, strings.TrimPrefix(why.Error(), reason+": "))
	return why
}

// pods fills in what the Deployment and its pods tell, and returns why they cannot run.
func pods(p *sdk.Pass[*v1.MyApp], set *appsv1.Deployment) (reason, trouble string) {
	var all []*corev1.Pod
	if set.UID != "" { // otherwise they are those of somebody else's, or of a former one
		all = sdk.Observed(p, &corev1.Pod{})
	}
	report.Pods(p.Object, set, all)
	return report.Trouble(set, all)
}

// data is the volume of an app.
type data struct {
	claim *corev1.PersistentVolumeClaim // as it is; nil if there is none
	alone bool                          // one node at a time can mount it
	ours  []sdk.Planned                 // the claim, if it is of our own: nobody else's of that name must be mounted
}

// volume sees to the claim. One of our own stays when the storage is disabled: nothing but the end of the MyApp ends its
// data.
func volume(p *sdk.Pass[*v1.MyApp]) (data, error) {
	storage := &p.Object.Spec.Storage
	if storage.ExistingClaim != "" {
		return existing(p, storage)
	}
	want, err := desired.Claim(p.Object)
	if err != nil {
		return data{}, sdk.Invalid("InvalidSize", "%v", err)
	}
	was, exists := sdk.Live(p, want.DeepCopy())
	if !exists && !storage.IsEnabled() {
		return data{}, nil
	}
	options := append([]sdk.ApplyOption{sdk.AdoptIf(left)}, adopts(p.Object)...)
	modes := storage.AccessModes
	if exists {
		desired.KeepSize(want, was)
		modes = was.Spec.AccessModes
	} else { // one that was left is seen once it is ours
		options = append(options, sdk.CreateOnly())
	}
	if p.Object.Spec.DeletionPolicy == v1.DeletionRetainData {
		options = append(options, sdk.Retain())
	}
	child := sdk.Apply(p, want, options...)
	live := child.Live()
	live.Name = want.Name
	return data{live, storage.IsEnabled() && desired.Alone(modes), []sdk.Planned{child}}, nil
}

// existing looks at a claim of somebody else. What spec.storage says of access modes is not about it.
func existing(p *sdk.Pass[*v1.MyApp], storage *v1.Storage) (data, error) {
	if !storage.IsEnabled() {
		return data{}, nil
	}
	claim, err := sdk.Ref(p, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: storage.ExistingClaim}})
	if err != nil {
		return data{}, err
	}
	alone := desired.Alone(claim.Spec.AccessModes)
	if alone && desired.Several(p.Object) {
		report.Volume(p.Object, claim)
		return data{}, sdk.Invalid("VolumeNotShared", "claim %s has access modes %v and cannot back several replicas: "+
			"run one replica, or name a claim with ReadWriteMany in a new MyApp", claim.Name, claim.Spec.AccessModes)
	}
	return data{claim: claim, alone: alone}, nil
}

// left reports whether a claim was left by a MyApp with RetainData.
func left(claim client.Object) bool { return claim.GetLabels()[sdk.ManagedByLabel] == "myapp" }

// adopts lets the operator take over what nobody controls, if the app asks for it.
func adopts(app *v1.MyApp) []sdk.ApplyOption {
	if app.Annotations[AdoptAnnotation] == "true" {
		return []sdk.ApplyOption{sdk.Adopt()}
	}
	return nil
}

func deploymentOptions(app *v1.MyApp) []sdk.ApplyOption {
	options := adopts(app)
	if app.Spec.Replicas == nil { // others decide
		options = append(options, sdk.Unmanaged("spec.replicas"))
	}
	if app.Annotations[RecreateAnnotation] == "true" {
		options = append(options, sdk.OnImmutable(sdk.RecreateOrphan))
	}
	return options
}

// traffic sees to what leads to the pods, and decides how many there are. It returns the Service as it is, nil if none is
// asked for. What leads to an object or scales it by its name is not made while that name is somebody else's.
func traffic(p *sdk.Pass[*v1.MyApp], deployment sdk.Planned) *corev1.Service {
	app, may := p.Object, adopts(p.Object)
	var service *corev1.Service
	if app.Spec.Service.Enabled && len(app.Spec.Ports) > 0 {
		child := sdk.Apply(p, desired.Service(app), may...)
		if service = child.Live(); app.Spec.Ingress.Enabled {
			sdk.Apply(p, desired.Ingress(app), append(may, sdk.AfterCreated(child))...)
		}
	}
	if app.Spec.Autoscaling != nil {
		sdk.Apply(p, desired.Autoscaler(app), append(may, sdk.AfterCreated(deployment))...)
	}
	return service
}
