package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func reconciles(ctx context.Context, i *installation) ([]finding, error) {
	if err := i.work(ctx); err != nil {
		return []finding{{"ServiceAccount " + i.account(), err.Error() + i.logged()}}, nil //nolint:nilerr // it has the error
	}
	return nil, nil
}

// logged returns the errors in the log of the last replica, as an addition to a message.
func (i *installation) logged() string {
	if len(i.replicas) == 0 {
		return ""
	}
	if text := i.replicas[len(i.replicas)-1].log.String(); text != "" {
		return "; its log: " + text
	}
	return ""
}

// work starts the first replica, unless there is one, and lets it reconcile an example.
func (i *installation) work(ctx context.Context) error {
	if len(i.replicas) > 0 {
		return nil
	}
	if _, err := i.start(ctx); err != nil {
		return err
	}
	if err := i.reconcile(ctx, "first"); err != nil {
		return err
	}
	i.working = true
	return nil
}

func idle(ctx context.Context, i *installation) ([]finding, error) {
	if err := i.work(ctx); err != nil || !i.working {
		return nil, err // reported by reconciles
	}
	leader := i.replicas[0]
	waiting, cancel := context.WithTimeout(ctx, i.operator.Timeout)
	defer cancel()
	if err := leader.requests.WaitIdle(waiting, quiet); err != nil {
		return []finding{{"the leader", "it does not become idle within " + i.operator.Timeout.String()}}, nil
	}
	before := len(leader.requests.Requests())
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(observation):
	}
	var found []finding
	for _, r := range leader.requests.Requests()[before:] {
		found = append(found, finding{"the leader", "it sends a request while idle: " + r.String()})
	}
	return found, nil
}

func leaderElection(ctx context.Context, i *installation) ([]finding, error) {
	if err := i.work(ctx); err != nil || !i.working {
		return nil, err // reported by reconciles
	}
	found, err := i.checkLease(ctx)
	if err != nil {
		return found, err
	}
	second, err := i.start(ctx)
	if err != nil {
		return found, err
	}
	if err := i.waitFor(ctx, "the second replica to ask for the Lease", func(context.Context) (string, error) {
		if len(second.requests.LeaseRequests()) == 0 {
			return "it has sent no request about it", nil
		}
		return "", nil
	}); err != nil {
		return append(found, finding{"the second replica", err.Error()}), nil //nolint:nilerr // the finding has the error
	}
	if err := i.reconcile(ctx, "second"); err != nil {
		return append(found, finding{"the leader beside another replica", err.Error()}), nil //nolint:nilerr // it has the error
	}
	for _, r := range second.writes() {
		found = append(found, finding{"the second replica", "it writes although it does not lead: " + r.String()})
	}
	if err := i.replicas[0].stop(); err != nil {
		found = append(found, finding{"the leader", "it does not stop cleanly: " + err.Error()})
	}
	before := len(second.writes())
	if err := i.reconcile(ctx, "third"); err != nil {
		return append(found, finding{"the second replica", "it does not take over: " + err.Error()}), nil //nolint:nilerr // as above
	}
	if len(second.writes()) == before {
		found = append(found, finding{"the second replica", "it does not take over: it writes nothing"})
	}
	return found, nil
}

// checkLease checks that the Lease has a holder and that an event reports the leader.
func (i *installation) checkLease(ctx context.Context) ([]finding, error) {
	var found []finding
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: i.namespace(), Name: i.electionID(i.operator)}
	if err := i.client.Get(ctx, key, lease); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Lease: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		found = append(found, finding{"Lease " + key.String(), "the leader does not hold it"})
	}
	err := i.waitFor(ctx, "the event of the leader", func(ctx context.Context) (string, error) {
		var events corev1.EventList
		if err := i.client.List(ctx, &events, client.InNamespace(key.Namespace)); err != nil {
			return "", fmt.Errorf("listing events: %w", err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == "Lease" && strings.Contains(e.Message, "became leader") {
				return "", nil
			}
		}
		return "there is no event", nil
	})
	if err != nil {
		found = append(found, finding{"Lease " + key.String(), err.Error()})
	}
	return found, nil
}
