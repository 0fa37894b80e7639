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
	"github.com/homeostat-dev/homeostat/testkit/demo"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const (
	name = "example-immortal-container"
	// calm is how long nothing may happen after the operator is back.
	calm = 3 * time.Second
)

var immortality = demo.Demo{
	Dir: "operators/immortalcontainer", AddToScheme: v1alpha1.AddToScheme,
	Steps: func(stage *demo.Env) []demo.Step {
		s := &scene{stage}
		return []demo.Step{
			{Title: "The article's manifest is applied", Play: s.applied},
			{Title: "Somebody deletes the pod", Play: s.podDies},
			{Title: "The operator is killed and comes back", Play: s.operatorDies},
		}
	},
}

// scene is what the acts share.
type scene struct{ *demo.Env }

func (s *scene) applied(ctx context.Context) error {
	began := time.Now()
	if err := s.ApplySamples(ctx); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v sight) bool { return v.ready && v.starts == 1 })
	s.Printf("ready after %s: %s", demo.Seconds(time.Since(began)), seen)
	return err
}

func (s *scene) podDies(ctx context.Context) error {
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = metav1.NamespaceDefault, before.pod
	if err := s.Client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("deleting the pod: %w", err)
	}
	s.Printf("deleted pod %s", before.pod)
	after, err := s.await(ctx, func(v sight) bool { return v.ready && v.starts == 2 && v.uid != before.uid })
	s.Printf("ready after %s, with a new pod of that name: %s", demo.Seconds(time.Since(began)), after)
	return err
}

func (s *scene) operatorDies(ctx context.Context) error {
	before, err := s.look(ctx)
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
	s.Printf("%s later: %s", demo.Seconds(calm), after)
	s.Printf("pods of the ImmortalContainer: %d; pods created or deleted since: %d", after.pods, pods)
	if after.uid != before.uid || after.starts != before.starts || after.pods != 1 || pods != 0 {
		return fmt.Errorf("the operator's return must change nothing, and before it was: %s", before)
	}
	return nil
}

// sight is what can be seen of the ImmortalContainer and its pods at one moment.
type sight struct {
	ready  bool
	starts int64
	pod    string
	uid    types.UID
	pods   int
}

func (v sight) String() string {
	return fmt.Sprintf("Ready %t, startTimes %d, pod %s", v.ready, v.starts, v.pod)
}

func (s *scene) look(ctx context.Context) (sight, error) {
	ic := &v1alpha1.ImmortalContainer{}
	if err := s.Client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, ic); err != nil {
		return sight{}, fmt.Errorf("looking at the ImmortalContainer: %w", err)
	}
	var pods corev1.PodList
	labels := client.MatchingLabels{"controller": name}
	if err := s.Client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), labels); err != nil {
		return sight{}, fmt.Errorf("looking at its pods: %w", err)
	}
	v := sight{
		ready: conditions.IsTrue(ic, conditions.Ready), starts: ic.Status.StartTimes, pod: ic.Status.CurrentPod,
		pods: len(pods.Items),
	}
	for _, pod := range pods.Items {
		v.uid = pod.UID
	}
	return v, nil
}

// await looks until what it sees is as it should be, and returns what it saw last.
func (s *scene) await(ctx context.Context, good func(sight) bool) (sight, error) {
	return demo.Await(ctx, func(ctx context.Context) (sight, bool, error) {
		v, err := s.look(ctx)
		return v, err == nil && good(v), err
	})
}

// watchPods counts the pods that come and go within the calm time, and returns the sight at its end.
func (s *scene) watchPods(ctx context.Context) (sight, int, error) {
	w, err := s.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault))
	if err != nil {
		return sight{}, 0, fmt.Errorf("watching pods: %w", err)
	}
	defer w.Stop()
	changes, end := -1, time.After(calm) // the pod that exists is the first event
	for {
		select {
		case <-ctx.Done():
			return sight{}, 0, ctx.Err()
		case e, ok := <-w.ResultChan():
			if pod, is := e.Object.(*corev1.Pod); ok && is && pod.Labels["controller"] == name && e.Type != "MODIFIED" {
				changes++
			}
		case <-end:
			v, err := s.look(ctx)
			return v, changes, err
		}
	}
}
