package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
)

const (
	name = "example-immortal-container"
	// quietPeriod is how long nothing may change after the operator's restart.
	quietPeriod = 3 * time.Second
)

var immortalDemo = demo.Demo{
	Dir: "operators/immortalcontainer", AddToScheme: v1alpha1.AddToScheme,
	Steps: func(env *demo.Env) []demo.Step {
		s := &steps{env}
		return []demo.Step{
			{Title: "The article's manifest is applied", Play: s.applySample},
			{Title: "A user deletes the pod", Play: s.deletePod},
			{Title: "The operator is killed and comes back", Play: s.killOperator},
		}
	},
}

// steps holds the state that the steps share.
type steps struct{ *demo.Env }

func (s *steps) applySample(ctx context.Context) error {
	began := time.Now()
	if err := s.ApplySamples(ctx); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v observation) bool { return v.ready && v.starts == 1 })
	s.Printf("ready after %s: %s", demo.Seconds(time.Since(began)), seen)
	return err
}

func (s *steps) deletePod(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	pod := &corev1.Pod{}
	pod.Namespace = metav1.NamespaceDefault
	pod.Name = before.pod
	if err := s.Client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("deleting the pod: %w", err)
	}
	s.Printf("deleted pod %s", before.pod)
	after, err := s.await(ctx, func(v observation) bool { return v.ready && v.starts == 2 && v.uid != before.uid })
	s.Printf("ready after %s, with a new pod of that name: %s", demo.Seconds(time.Since(began)), after)
	return err
}

func (s *steps) killOperator(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	operator := s.Operators()[0]
	first := operator.Status()
	if err := operator.Kill(); err != nil {
		return fmt.Errorf("killing the operator: %w", err)
	}
	s.Printf("killed process %d", first.PID)
	began := time.Now()
	if _, err := demo.Await(ctx, func(context.Context) (sandbox.Status, bool, error) {
		now := operator.Status()
		return now, now.PID != 0 && now.PID != first.PID, nil
	}); err != nil {
		return fmt.Errorf("waiting for the operator: %w", err)
	}
	s.Printf("process %d runs %s later", operator.Status().PID, demo.Seconds(time.Since(began)))

	after, pods, err := s.watchPods(ctx)
	if err != nil {
		return err
	}
	s.Printf("%s later: %s", demo.Seconds(quietPeriod), after)
	s.Printf("pods of the ImmortalContainer: %d; pods created or deleted since: %d", after.pods, pods)
	if after.uid != before.uid || after.starts != before.starts || after.pods != 1 || pods != 0 {
		return fmt.Errorf("the operator's return must change nothing, and before it was: %s", before)
	}
	return nil
}

// observation is a snapshot of the ImmortalContainer and its pods.
type observation struct {
	ready  bool
	starts int64
	pod    string
	uid    types.UID
	pods   int
}

func (v observation) String() string {
	return fmt.Sprintf("Ready %t, startTimes %d, pod %s", v.ready, v.starts, v.pod)
}

func (s *steps) observe(ctx context.Context) (observation, error) {
	ic := &v1alpha1.ImmortalContainer{}
	if err := s.Client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, ic); err != nil {
		return observation{}, fmt.Errorf("looking at the ImmortalContainer: %w", err)
	}
	var pods corev1.PodList
	labels := client.MatchingLabels{"controller": name}
	if err := s.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), labels); err != nil {
		return observation{}, fmt.Errorf("looking at its pods: %w", err)
	}
	v := observation{
		ready: conditions.IsTrue(ic, conditions.Ready), starts: ic.Status.StartTimes, pod: ic.Status.CurrentPod,
		pods: len(pods.Items),
	}
	for _, pod := range pods.Items {
		v.uid = pod.UID
	}
	return v, nil
}

// await polls until good accepts the observation, and returns the last one.
func (s *steps) await(ctx context.Context, good func(observation) bool) (observation, error) {
	return demo.Await(ctx, func(ctx context.Context) (observation, bool, error) {
		v, err := s.observe(ctx)
		return v, err == nil && good(v), err
	})
}

// watchPods counts the pods created and deleted within quietPeriod, and returns the observation at its end.
func (s *steps) watchPods(ctx context.Context) (observation, int, error) {
	w, err := s.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		return observation{}, 0, fmt.Errorf("watching pods: %w", err)
	}
	defer w.Stop()
	changes, end := -1, time.After(quietPeriod) // the pod that exists is the first event
	for {
		select {
		case <-ctx.Done():
			return observation{}, 0, ctx.Err()
		case e, ok := <-w.ResultChan():
			if pod, is := e.Object.(*corev1.Pod); ok && is && pod.Labels["controller"] == name && e.Type != "MODIFIED" {
				changes++
			}
		case <-end:
			v, err := s.observe(ctx)
			return v, changes, err
		}
	}
}
