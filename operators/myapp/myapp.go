// Package myapp reconciles MyApps: a Deployment with a volume and, on request, a Service, an Ingress and a
// HorizontalPodAutoscaler.
//
// This file is the operator; volume.go and traffic.go apply the claim and what leads to the pods. Package internal/desired
// builds the children, package internal/policy decides, package internal/status reports, and the SDK sends the requests.
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
	"github.com/homeostat-dev/homeostat/operators/myapp/internal/status"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Operator reconciles MyApps.
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
	Summarize: status.Summarize,
	Paused:    func(app *v1.MyApp) bool { return app.Spec.Paused },
}

// The annotations that permit riskier actions, with the value "true".
const (
	// RecreateAnnotation permits to recreate the Deployment without deleting its pods, if it has an immutable selector
	// other than ours, for instance after a restore from a backup.
	RecreateAnnotation = "mycompany.com/recreate"
	// AdoptAnnotation permits to adopt existing objects that have a child's name and no controller, for instance after a
	// restore from a backup. The operator updates and deletes an adopted object like any other child.
	AdoptAnnotation = "mycompany.com/adopt"
)

func reconcile(_ context.Context, p *sdk.Pass[*v1.MyApp]) error {
	app := p.Object
	volume, err := applyVolume(p)
	if err != nil {
		return reportBlocked(p, err)
	}
	status.Volume(app, volume.claim)
	name := ""
	if volume.claim != nil && app.Spec.Storage.IsEnabled() {
		name = volume.claim.Name
	}
	deployment, err := desired.Deployment(app, name, volume.singleNode)
	if err != nil {
		return reportBlocked(p, sdk.Invalid("InvalidPodTemplate", "%v: correct it", err))
	}
	scaler, err := foreignAutoscaler(p)
	if err != nil {
		return err
	}
	options := append(deploymentOptions(app, scaler), sdk.AfterCreated(volume.planned...),
		sdk.RemoveForeign(desired.RemoveForeignPods(deployment)))
	child := sdk.Apply(p, deployment, append(options, volume.held...)...)
	set := child.Live()
	reason, podFailure := reportPods(p, set)
	if reason == "" && scaler != "" {
		reason, podFailure = status.ContendedReplicas(app, scaler)
	}
	if reason != "" {
		p.SetNotReady(reason, "%s", podFailure)
	}
	inside, err := applyTraffic(p, child)
	if err != nil {
		return err
	}
	app.Status.URL = desired.URL(app, inside)
	p.OnPlanExecuted(func(children []conditions.Child) {
		status.ExplainRejectedClaim(children, volume.granted)
		status.Children(p.Object, set, children, podFailure)
	})
	countPhase(p)
	return nil
}

// countPhase counts a new phase when the status has been stored.
func countPhase(p *sdk.Pass[*v1.MyApp]) {
	before := p.Object.Status.Phase
	p.OnStatusUpdated(func() { countPhaseChange(before, p.Object) })
}

// reportBlocked reports an error that prevents a plan in the status, and returns it. An error without a reason, such as a
// failed request, is not reported.
func reportBlocked(p *sdk.Pass[*v1.MyApp], err error) error {
	reason := sdk.Reason(err)
	if reason == "" {
		return err
	}
	set, _ := sdk.Live(p, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name}})
	countPhase(p)
	reportPods(p, set)
	status.ReportBlocked(p.Object, set, reason, strings.TrimPrefix(err.Error(), reason+": "))
	return err
}

// reportPods copies the state of the Deployment and its pods to the status, and returns the reason and the message of a
// pod failure.
func reportPods(p *sdk.Pass[*v1.MyApp], set *appsv1.Deployment) (reason, message string) {
	var all []*corev1.Pod
	if set.UID != "" { // otherwise the pods belong to a foreign Deployment or to a predecessor
		all = sdk.Observed(p, &corev1.Pod{})
	}
	status.Pods(p.Object, set, all)
	return status.PodFailure(set, all)
}

// adoptOptions adopts objects without a controller if the annotation permits it.
func adoptOptions(app *v1.MyApp) []sdk.ApplyOption {
	if app.Annotations[AdoptAnnotation] == "true" {
		return []sdk.ApplyOption{sdk.Adopt()}
	}
	return nil
}

// deploymentOptions returns the options of the Deployment. scaler is the result of foreignAutoscaler.
func deploymentOptions(app *v1.MyApp, scaler string) []sdk.ApplyOption {
	options := adoptOptions(app)
	if app.Spec.Replicas == nil || scaler != "" { // other field managers set the replicas
		options = append(options, sdk.Unmanaged("spec.replicas"))
	}
	if app.Annotations[RecreateAnnotation] == "true" {
		options = append(options, sdk.OnImmutable(sdk.RecreateOrphan))
	}
	return options
}
