package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
)

const name = "my-web-app"

var appDemo = demo.Demo{
	Dir: "operators/myapp", AddToScheme: v1.AddToScheme,
	Steps: func(env *demo.Env) []demo.Step {
		s := &steps{env}
		return []demo.Step{
			{Title: "The article's manifest is applied", Play: s.applySample},
			{Title: "Three pods are asked for", Play: s.scale},
			{Title: "A user changes the Deployment, and then deletes it", Play: s.repairDeployment},
			{Title: "The volume is to be larger, and then smaller", Play: s.resizeVolume},
			{Title: "It is deleted, and its data stay", Play: s.deleteAndRecreate},
		}
	},
}

// steps holds the state that the steps share.
type steps struct{ *demo.Env }

func (s *steps) applySample(ctx context.Context) error {
	began := time.Now()
	if err := s.create(ctx, "1Gi"); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v observation) bool { return v.ready() && v.volume() == "1Gi" })
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), seen)
	for _, child := range seen.app.Status.Resources {
		s.Printf("it consists of %s %s: %s", child.Kind, child.Name, child.Reason)
	}
	return nil
}

func (s *steps) scale(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	if err := s.expectRejection(ctx, func(spec *v1.MyAppSpec) { spec.Replicas = new(int32(3)) }); err != nil {
		return err
	}
	for _, want := range []struct {
		volume   bool
		replicas int32
		said     string
	}{{false, 3, "without the volume"}, {true, 1, "and with it again"}} {
		began := time.Now()
		if err := s.change(ctx, func(spec *v1.MyAppSpec) {
			spec.Storage.Enabled = new(want.volume)
			spec.Replicas = new(want.replicas)
		}); err != nil {
			return err
		}
		seen, err := s.await(ctx, func(v observation) bool {
			return v.ready() && v.app.Status.ReadyReplicas == want.replicas && v.mounted() == want.volume
		})
		if err != nil {
			return err
		}
		s.Printf("%s, %s: %s", want.said, since(began), seen)
		if seen.claim.UID != before.claim.UID {
			return fmt.Errorf("the claim is another one than before, which was %s", before.claim.UID)
		}
	}
	s.Printf("the claim is still the first one")
	return nil
}

func (s *steps) repairDeployment(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	const wrong = "nginx:wrong"
	began := time.Now()
	broken := before.deployment.DeepCopy()
	broken.Spec.Template.Spec.Containers[0].Image = wrong
	if err := s.Client.Patch(ctx, broken, client.MergeFrom(before.deployment)); err != nil {
		return fmt.Errorf("changing the Deployment: %w", err)
	}
	s.Printf("generation %d of the Deployment has the image %s", broken.Generation,
		broken.Spec.Template.Spec.Containers[0].Image)
	healed, err := s.await(ctx, func(v observation) bool {
		return v.ready() && v.image() == before.image() && v.deployment.Generation > broken.Generation
	})
	if err != nil {
		return err
	}
	s.Printf("%s: generation %d has %s; %s", since(began), healed.deployment.Generation, healed.image(), healed)

	began = time.Now()
	if err := s.Client.Delete(ctx, healed.deployment); err != nil {
		return fmt.Errorf("deleting the Deployment: %w", err)
	}
	again, err := s.await(ctx, func(v observation) bool {
		return v.ready() && v.deployment.UID != healed.deployment.UID && v.image() == before.image()
	})
	if err != nil {
		return err
	}
	s.Printf("the Deployment is deleted, and %s there is a new one: %s", since(began), again)
	return nil
}

func (s *steps) resizeVolume(ctx context.Context) error {
	began := time.Now()
	if err := s.change(ctx, func(spec *v1.MyAppSpec) { spec.Storage.Size = "2Gi" }); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v observation) bool { return v.ready() && v.volume() == "2Gi" })
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), seen)
	return s.expectRejection(ctx, func(spec *v1.MyAppSpec) { spec.Storage.Size = "1Gi" })
}

func (s *steps) deleteAndRecreate(ctx context.Context) error {
	before, err := s.await(ctx, observation.ready)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.Client.Delete(ctx, before.app); err != nil {
		return fmt.Errorf("deleting the MyApp: %w", err)
	}
	left, err := s.await(ctx, func(v observation) bool { return v.app == nil && v.deployment == nil && v.pods == 0 })
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), left)
	if left.claim == nil || left.claim.UID != before.claim.UID || left.claim.DeletionTimestamp != nil ||
		len(left.claim.OwnerReferences) > 0 {
		return fmt.Errorf("the claim has to stay, without an owner, and is %v", left.claim)
	}
	s.Printf("claim %s stays and has no owner", left.claim.Name)

	began = time.Now()
	if err := s.create(ctx, before.volume()); err != nil {
		return err
	}
	again, err := s.await(ctx, func(v observation) bool {
		return v.ready() && v.claim.Labels[apply.OwnerUIDLabel] == string(v.app.UID)
	})
	if err != nil {
		return err
	}
	if again.claim.UID != before.claim.UID {
		return fmt.Errorf("the claim is another one than before, which was %s", before.claim.UID)
	}
	s.Printf("%s a new %s has it: %s", since(began), name, again)
	return nil
}

// create applies the article's manifest. The manifest sets no size; the default is 1Gi.
func (s *steps) create(ctx context.Context, size string) error {
	for _, sample := range s.Samples() {
		if sample.GetName() != name {
			continue
		}
		app := sample.DeepCopy()
		if size != "1Gi" {
			if err := unstructured.SetNestedField(app.Object, size, "spec", "storage", "size"); err != nil {
				return fmt.Errorf("changing the manifest: %w", err)
			}
		}
		if err := s.Client.Create(ctx, app); err != nil {
			return fmt.Errorf("applying the manifest: %w", err)
		}
		return nil
	}
	return fmt.Errorf("there is no sample %s", name)
}

// change updates the specification, and retries on conflict.
func (s *steps) change(ctx context.Context, change func(*v1.MyAppSpec)) error {
	for {
		app := &v1.MyApp{}
		if err := s.Client.Get(ctx, key(name), app); err != nil {
			return fmt.Errorf("looking at the MyApp: %w", err)
		}
		change(&app.Spec)
		if err := s.Client.Update(ctx, app); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// expectRejection fails unless the API server rejects the change, and prints the message.
func (s *steps) expectRejection(ctx context.Context, change func(*v1.MyAppSpec)) error {
	err := s.change(ctx, change)
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || len(status.Status().Details.Causes) == 0 {
		return fmt.Errorf("it has to be refused, and the answer is: %w", err)
	}
	s.Printf("refused: %s", strings.TrimPrefix(status.Status().Details.Causes[0].Message, "Invalid value: "))
	return nil
}

// observation is a snapshot of the MyApp and its children; missing objects are nil.
type observation struct {
	app        *v1.MyApp
	deployment *appsv1.Deployment
	claim      *corev1.PersistentVolumeClaim
	pods       int
}

// ready reports whether the app is Ready for its current specification.
func (v observation) ready() bool {
	return v.app != nil && v.deployment != nil && v.claim != nil && conditions.IsTrue(v.app, conditions.Ready) &&
		v.app.Status.ObservedGeneration == v.app.Generation
}

// volume returns the capacity in the status, or "".
func (v observation) volume() string {
	if v.app == nil || v.app.Status.Volume == nil {
		return ""
	}
	return v.app.Status.Volume.Capacity
}

// mounted reports whether the pods mount the volume.
func (v observation) mounted() bool {
	return len(v.deployment.Spec.Template.Spec.Containers[0].VolumeMounts) > 0
}

func (v observation) image() string { return v.deployment.Spec.Template.Spec.Containers[0].Image }

func (v observation) String() string {
	if v.app == nil {
		return "the MyApp is gone; what is left: " + v.left()
	}
	volume := v.volume()
	if v.deployment != nil && !v.mounted() {
		volume += " not mounted"
	}
	return fmt.Sprintf("phase %s, %d of %d pods ready, image %s, volume %s",
		v.app.Status.Phase, v.app.Status.ReadyReplicas, v.app.Status.Replicas, v.app.Status.Image, volume)
}

// left lists the remaining objects of a deleted app.
func (v observation) left() string {
	var left []string
	if v.deployment != nil {
		left = append(left, "the Deployment")
	}
	if v.pods > 0 {
		left = append(left, "pods")
	}
	if v.claim != nil {
		left = append(left, "the claim")
	}
	return strings.Join(left, ", ")
}

func (s *steps) observe(ctx context.Context) (v observation, err error) {
	app, deployment, claim := &v1.MyApp{}, &appsv1.Deployment{}, &corev1.PersistentVolumeClaim{}
	found := func(object client.Object, name string) bool {
		getErr := s.Client.Get(ctx, key(name), object)
		if client.IgnoreNotFound(getErr) != nil {
			err = fmt.Errorf("looking at %s: %w", name, getErr)
		}
		return getErr == nil
	}
	if found(app, name) {
		v.app = app
	}
	if found(deployment, name) {
		v.deployment = deployment
	}
	if found(claim, name+"-data") {
		v.claim = claim
	}
	var pods corev1.PodList
	if listErr := s.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault)); listErr != nil {
		return v, fmt.Errorf("looking at the pods: %w", listErr)
	}
	v.pods = len(pods.Items)
	return v, err
}

// await polls until good accepts the observation, and returns the last one.
func (s *steps) await(ctx context.Context, good func(observation) bool) (observation, error) {
	return demo.Await(ctx, func(ctx context.Context) (observation, bool, error) {
		v, err := s.observe(ctx)
		return v, err == nil && good(v), err
	})
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}
}

func since(began time.Time) string {
	return "after " + demo.Seconds(time.Since(began))
}
