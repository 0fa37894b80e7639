package main

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const (
	name = "example-immortal-container"
	// patience is how long each act may take. The operator is restarted after a pause, so it is not short.
	patience = time.Minute
	// calm is how long nothing may happen after the operator is back.
	calm = 3 * time.Second
)

// story is the demo: its acts, and what each of them saw.
type story struct {
	client client.WithWatch
	box    *sandbox.Sandbox
	out    io.Writer
	act    int
}

func newStory(box *sandbox.Sandbox, out io.Writer) (*story, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	c, err := client.NewWithWatch(box.Config(), client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &story{client: c, box: box, out: out}, nil
}

// tell plays the acts in order and stops at the first that does not go as promised.
func (s *story) tell(ctx context.Context) error {
	for _, act := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"The article's manifest is applied", s.applied},
		{"Somebody deletes the pod", s.podDies},
		{"The operator is killed and comes back", s.operatorDies},
	} {
		s.act++
		fmt.Fprintf(s.out, "\n%d. %s.\n", s.act, act.title)
		if err := act.play(ctx); err != nil {
			return fmt.Errorf("act %d: %w", s.act, err)
		}
	}
	fmt.Fprintln(s.out, "\nThe end.")
	return nil
}

func (s *story) applied(ctx context.Context) error {
	began := time.Now()
	if err := s.box.ApplySamples(ctx); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v sight) bool { return v.ready && v.starts == 1 })
	s.saw("ready after %s: %s", time.Since(began).Round(time.Millisecond), seen)
	return err
}

func (s *story) podDies(ctx context.Context) error {
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = metav1.NamespaceDefault, before.pod
	if err := s.client.Delete(ctx, pod); err != nil {
		return fmt.Errorf("deleting the pod: %w", err)
	}
	s.saw("deleted pod %s (%s)", before.pod, before.uid)
	after, err := s.await(ctx, func(v sight) bool { return v.ready && v.starts == 2 && v.uid != before.uid })
	s.saw("ready after %s: %s", time.Since(began).Round(time.Millisecond), after)
	return err
}

func (s *story) operatorDies(ctx context.Context) error {
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	operator := s.box.Operators()[0]
	first := operator.Status()
	if err := operator.Kill(); err != nil {
		return fmt.Errorf("killing the operator: %w", err)
	}
	s.saw("killed process %d", first.PID)
	began := time.Now()
	if _, err := poll(ctx, patience, func(context.Context) (sandbox.Status, bool, error) {
		now := operator.Status()
		return now, now.PID != 0 && now.PID != first.PID, nil
	}); err != nil {
		return fmt.Errorf("waiting for the operator: %w", err)
	}
	s.saw("process %d runs %s later", operator.Status().PID, time.Since(began).Round(time.Millisecond))

	after, pods, err := s.watchPods(ctx)
	if err != nil {
		return err
	}
	s.saw("%s later: %s", calm, after)
	s.saw("pods of the ImmortalContainer: %d; pods created or deleted since: %d", after.pods, pods)
	if after.uid != before.uid || after.starts != before.starts || after.pods != 1 || pods != 0 {
		return fmt.Errorf("the operator's return must change nothing, and before it was: %s", before)
	}
	return nil
}

func (s *story) saw(format string, args ...any) { fmt.Fprintf(s.out, "   "+format+"\n", args...) }

// sight is what can be seen of the ImmortalContainer and its pods at one moment.
type sight struct {
	ready  bool
	starts int64
	pod    string
	uid    types.UID
	pods   int
}

func (v sight) String() string {
	return fmt.Sprintf("Ready %t, startTimes %d, pod %s (%s)", v.ready, v.starts, v.pod, v.uid)
}

func (s *story) look(ctx context.Context) (sight, error) {
	ic := &v1alpha1.ImmortalContainer{}
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, ic); err != nil {
		return sight{}, fmt.Errorf("looking at the ImmortalContainer: %w", err)
	}
	var pods corev1.PodList
	labels := client.MatchingLabels{"controller": name}
	if err := s.client.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), labels); err != nil {
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
func (s *story) await(ctx context.Context, good func(sight) bool) (sight, error) {
	return poll(ctx, patience, func(ctx context.Context) (sight, bool, error) {
		v, err := s.look(ctx)
		return v, err == nil && good(v), err
	})
}

// watchPods counts the pods that come and go within the calm time, and returns the sight at its end.
func (s *story) watchPods(ctx context.Context) (sight, int, error) {
	w, err := s.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(metav1.NamespaceDefault))
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

// poll calls f every 50 ms until it is done, and returns what it returned last.
func poll[V any](ctx context.Context, limit time.Duration, f func(context.Context) (V, bool, error)) (V, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		v, done, err := f(ctx)
		if err != nil || done {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("not within %s: %w", limit, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
