package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
)

const (
	namespace = "default"
	workload  = "web"
	config    = "nginx-conf"
)

var rolloutDemo = demo.Demo{
	Dir: "operators/configrollout", AddToScheme: func(*runtime.Scheme) error { return nil },
	Steps: func(env *demo.Env) []demo.Step {
		s := &steps{Env: env}
		return []demo.Step{
			{Title: "The article's nginx is applied, with its configuration in a ConfigMap", Play: s.applyManifest},
			{Title: "The ConfigMap gets an annotation", Play: s.annotateConfigMap},
			{Title: "The configuration changes", Play: s.changeConfigMap},
			{Title: "It changes five times in a row", Play: s.burst},
			{Title: "A user removes the digest from the pod template", Play: s.removeDigest},
		}
	},
}

// steps holds the state that the steps share.
type steps struct {
	*demo.Env

	template string // the last observed digest in the pod template
	revision int    // the number of templates observed so far
}

// observation is a snapshot of the Deployment.
type observation struct {
	deployment *appsv1.Deployment
	sets       int // number of ReplicaSets, one for each template
}

func (v observation) String() string {
	s := v.deployment.Status
	return fmt.Sprintf("%d of %d pods have the present template and can serve",
		min(s.UpdatedReplicas, s.AvailableReplicas), s.Replicas)
}

func (v observation) digest() string {
	return v.deployment.Spec.Template.Annotations[annotation.Digest]
}

// rolled reports whether all pods have the present template.
func (v observation) rolled() bool {
	d := v.deployment
	return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
}

// upToDate reports whether all pods have the present configuration.
func (v observation) upToDate() bool {
	a := v.deployment.Annotations
	return v.rolled() && a[annotation.ObservedDigest] != "" && a[annotation.PendingDigest] == ""
}

// await polls until good accepts the Deployment.
func (s *steps) await(ctx context.Context, good func(observation) bool) (observation, error) {
	return demo.Await(ctx, func(ctx context.Context) (observation, bool, error) {
		v := observation{deployment: &appsv1.Deployment{}}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: workload}, v.deployment); err != nil {
			return v, false, fmt.Errorf("reading the Deployment: %w", err)
		}
		sets := &appsv1.ReplicaSetList{}
		if err := s.Client.List(ctx, sets, client.InNamespace(namespace), client.MatchingLabels{"app": workload}); err != nil {
			return v, false, fmt.Errorf("listing its ReplicaSets: %w", err)
		}
		v.sets = len(sets.Items)
		return v, good(v), nil
	})
}

func (s *steps) applyManifest(ctx context.Context) error {
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+annotation.DefaultLabel+`":"enabled"}}}`))
	if err := s.Client.Patch(ctx, home, patch); err != nil {
		return fmt.Errorf("labeling the namespace: %w", err)
	}
	for _, o := range []client.Object{configMap("one"), deployment()} {
		if err := s.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
	}
	seen, err := s.await(ctx, func(v observation) bool { return v.upToDate() })
	if err != nil {
		return err
	}
	if seen.digest() != "" || seen.sets != 1 {
		return fmt.Errorf("it was rolled, to template %d, when it was taken in", seen.sets)
	}
	s.revision = seen.sets
	s.Printf("taken in, and nothing was rolled: %s", seen)
	return nil
}

func configMap(says string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: config},
		Data:       map[string]string{"nginx.conf": "events {}\nhttp { server { listen 80; return 200 \"" + says + "\"; } }\n"},
	}
}

// deployment returns the article's Deployment.
func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": workload}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: workload},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "nginx", Image: "nginx:1.21",
					VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/nginx/nginx.conf", SubPath: "nginx.conf"}},
				}},
				Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}},
				}}},
			}},
		},
	}
}

func (s *steps) annotateConfigMap(ctx context.Context) error {
	o := configMap("one")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"of no concern"}}}`))
	if err := s.Client.Patch(ctx, o, patch); err != nil {
		return fmt.Errorf("annotating the ConfigMap: %w", err)
	}
	const longer = 8 * time.Second // longer than the quiet period
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(longer):
	}
	seen, err := s.await(ctx, observation.upToDate)
	if err != nil {
		return err
	}
	if seen.sets != s.revision {
		return fmt.Errorf("it was rolled, to template %d", seen.sets)
	}
	s.Printf("%s after an annotation of the ConfigMap: still template %d; %s", demo.Seconds(longer), seen.sets, seen)
	return nil
}

// write changes the ConfigMap.
func (s *steps) write(ctx context.Context, says string) error {
	if err := s.Client.Update(ctx, configMap(says)); err != nil {
		return fmt.Errorf("changing the ConfigMap: %w", err)
	}
	return nil
}

// awaitRollout waits for the next rollout and prints it.
func (s *steps) awaitRollout(ctx context.Context, began time.Time, what string) error {
	seen, err := s.await(ctx, func(v observation) bool { return v.upToDate() && v.digest() != "" && v.digest() != s.template })
	if err != nil {
		return err
	}
	if seen.sets != s.revision+1 {
		return fmt.Errorf("there are %d templates, and there were %d", seen.sets, s.revision)
	}
	var last annotation.Rollout
	if err := json.Unmarshal([]byte(seen.deployment.Annotations[annotation.LastRollout]), &last); err != nil {
		return fmt.Errorf("reading of the last rollout: %w", err)
	}
	s.template = seen.digest()
	s.revision = seen.sets
	s.Printf("%s later it is rolled because of %s, %s: template %d; %s",
		demo.Seconds(time.Since(began)), strings.Join(last.Sources, ", "), what, seen.sets, seen)
	return nil
}

func (s *steps) changeConfigMap(ctx context.Context) error {
	began := time.Now()
	if err := s.write(ctx, "two"); err != nil {
		return err
	}
	return s.awaitRollout(ctx, began, "after a quiet period")
}

func (s *steps) burst(ctx context.Context) error {
	began := time.Now()
	for _, says := range []string{"a", "b", "c", "d", "three"} {
		if err := s.write(ctx, says); err != nil {
			return err
		}
	}
	return s.awaitRollout(ctx, began, "one rollout for 5 changes")
}

func (s *steps) removeDigest(ctx context.Context) error {
	before, err := s.await(ctx, observation.upToDate)
	if err != nil {
		return err
	}
	began := time.Now()
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"`+annotation.Digest+`":null}}}}}`))
	if err := s.Client.Patch(ctx, before.deployment.DeepCopy(), patch); err != nil {
		return fmt.Errorf("taking the digest out: %w", err)
	}
	seen, err := s.await(ctx, func(v observation) bool { return v.upToDate() && v.digest() == s.template })
	if err != nil {
		return err
	}
	s.Printf("%s later it has the digest of the present configuration again, and is rolled once more: %s",
		demo.Seconds(time.Since(began)), seen)
	return nil
}
