package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file contains the phases of a measurement in their order.

// converge creates the objects and measures the work until all are provisioned.
func (m *measurement) converge(ctx context.Context, r *result) error {
	before, idle, err := m.usageWhenIdle(ctx)
	if err != nil {
		return err
	}
	server, err := usageOf(m.apiserver)
	if err != nil {
		return err
	}
	names := make([]string, m.n)
	for i := range names {
		names[i] = fmt.Sprintf("db-%05d", i)
	}
	began := time.Now()
	if err := m.profiled(func() error { return m.create(ctx, names) }); err != nil {
		return err
	}
	r.WallSeconds = time.Since(began).Seconds()
	after, used, err := m.usageWhenIdle(ctx)
	if err != nil {
		return err
	}
	served, err := usageOf(m.apiserver)
	if err != nil {
		return err
	}
	r.OperatorCPUSeconds = used.cpu - idle.cpu
	r.APIServerCPUSeconds = served.cpu - server.cpu
	r.RSSBytes = used.rss
	made := after.since(before, "POST databases")
	r.RequestsPerObject = made.sum() / float64(m.n)
	r.RequestsByVerb = map[string]float64{}
	for kind, count := range made {
		r.RequestsByVerb[kind] = count / float64(m.n)
	}
	return m.complete(ctx)
}

// complete checks that the candidate has created all children.
func (m *measurement) complete(ctx context.Context) error {
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSetList"), corev1.SchemeGroupVersion.WithKind("ServiceList"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"), batchv1.SchemeGroupVersion.WithKind("CronJobList"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := m.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("counting the children: %w", err)
		}
		if got, want := len(list.Items), m.n+1; got != want { // one object of the warm-up
			return fmt.Errorf("the %s has %d items, want %d", kind.Kind, got, want)
		}
	}
	return nil
}

// countIdleRequests counts the candidate's requests without any change.
func (m *measurement) countIdleRequests(ctx context.Context, r *result) error {
	made, err := m.during(ctx, func() error { return sleep(ctx, m.window) })
	r.SteadyRequests = new(made.sum())
	m.logf("    at rest for %v: %v", m.window, made)
	return err
}

// churn counts the candidate's requests during irrelevant status changes of children.
func (m *measurement) churn(ctx context.Context, r *result) error {
	const most = 50
	round := 0
	made, err := m.during(ctx, func() error {
		for end := time.Now().Add(m.window); time.Now().Before(end); {
			round++
			next := time.Now().Add(time.Second)
			for i := range min(m.n, most) {
				patch := fmt.Appendf(nil, `{"status":{"collisionCount":%d}}`, round)
				set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: fmt.Sprintf("db-%05d-db", i),
				}}
				if err := m.client.Status().Patch(ctx, set, client.RawPatch(types.MergePatchType, patch)); err != nil {
					return fmt.Errorf("changing the status of a child: %w", err)
				}
			}
			if err := sleep(ctx, time.Until(next)); err != nil {
				return err
			}
		}
		return nil
	}, "PATCH statefulsets/status")
	r.ChurnRequests = new(made.sum())
	m.logf("    while the status of %d children changed %d times: %v", min(m.n, most), round, made)
	return err
}

// during counts the requests while f runs.
func (m *measurement) during(ctx context.Context, f func() error, without ...string) (requests, error) {
	before, _, err := m.usageWhenIdle(ctx)
	if err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, err
	}
	after, err := countRequests(ctx, m.metrics)
	if err != nil {
		return nil, err
	}
	return after.since(before, without...), m.process.check()
}

// drift deletes children and measures the time until they are recreated.
func (m *measurement) drift(ctx context.Context, r *result) error {
	const most = 200
	events, err := m.client.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching services: %w", err)
	}
	defer events.Stop()
	times := make([]float64, 0, most)
	for i := range min(m.n, most) {
		took, err := m.repair(ctx, fmt.Sprintf("db-%05d-db", i*m.n/min(m.n, most)), events.ResultChan())
		if err != nil {
			return err
		}
		times = append(times, float64(took.Microseconds())/1000)
	}
	r.DriftP50Millis = new(quantile(times, 0.5))
	r.DriftP99Millis = new(quantile(times, 0.99))
	return nil
}

func (m *measurement) repair(ctx context.Context, name string, events <-chan watch.Event) (time.Duration, error) {
	service := &corev1.Service{}
	if err := m.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service); err != nil {
		return 0, fmt.Errorf("reading a child: %w", err)
	}
	began := time.Now()
	if err := m.client.Delete(ctx, service, client.Preconditions{UID: &service.UID}); err != nil {
		return 0, fmt.Errorf("deleting a child: %w", err)
	}
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return 0, errors.New("the watch ended")
			}
			back, ok := e.Object.(*corev1.Service)
			if ok && e.Type == watch.Added && back.Name == name && back.UID != service.UID {
				return time.Since(began), nil
			}
		case <-m.process.ended:
			return 0, m.process.check()
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for Service %s to come back: %w", name, ctx.Err())
		}
	}
}

// restart counts the candidate's requests after a restart, without those that fill its cache.
func (m *measurement) restart(ctx context.Context, r *result) error {
	before, _, err := m.usageWhenIdle(ctx)
	if err != nil {
		return err
	}
	m.process.stop()
	if err := m.startCandidate(); err != nil {
		return err
	}
	after, _, err := m.usageWhenIdle(ctx)
	if err != nil {
		return err
	}
	made := after.sinceStart(before)
	r.RestartRequests = new(made.sum())
	m.logf("    after a restart: %v", made)
	return nil
}
