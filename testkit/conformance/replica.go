package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

const (
	// quiet is the time without a request after which an operator counts as idle.
	quiet = time.Second
	// observation is how long an idle operator is observed.
	observation = 3 * time.Second
	// stopTimeout bounds the graceful shutdown of a replica.
	stopTimeout = 15 * time.Second
)

// replica is one running instance of the operator.
type replica struct {
	requests *recorder.Recorder
	log      errorLog
	cancel   context.CancelFunc
	done     chan struct{}
	err      error // set before done is closed
}

// start runs another replica as the operator's ServiceAccount, with leader election.
func (i *installation) start(ctx context.Context) (*replica, error) {
	cfg, err := i.accountConfig(ctx)
	if err != nil {
		return nil, err
	}
	scheme, err := i.scheme()
	if err != nil {
		return nil, err
	}
	r := &replica{requests: recorder.New(), done: make(chan struct{})}
	mgr, err := manager.New(r.requests.Wrap(cfg), i.managerOptions(scheme, &r.log))
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	if err := i.operator.Setup(mgr, i.overlay.WatchNamespaces...); err != nil {
		return nil, fmt.Errorf("setting up the operator: %w", err)
	}
	// Not a child of ctx: the graceful shutdown needs the API server.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.err = mgr.Start(running)
	}()
	i.replicas = append(i.replicas, r)
	return r, nil
}

func (i *installation) managerOptions(scheme *runtime.Scheme, log *errorLog) manager.Options {
	options := manager.Options{
		Scheme:                        scheme,
		Logger:                        log.logger(),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		Controller:                    config.Controller{SkipNameValidation: new(true)},
		GracefulShutdownTimeout:       new(stopTimeout),
		LeaderElection:                true,
		LeaderElectionID:              i.electionID(i.operator),
		LeaderElectionNamespace:       i.namespace(),
		LeaderElectionReleaseOnCancel: true,
	}
	if len(i.overlay.WatchNamespaces) > 0 {
		options.Cache.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range i.overlay.WatchNamespaces {
			options.Cache.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// accountConfig returns a client configuration with a token of the operator's ServiceAccount.
func (i *installation) accountConfig(ctx context.Context) (*rest.Config, error) {
	token := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace(), Name: i.account()}}
	if err := i.client.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %s: %w", account.Name, err)
	}
	cfg := rest.AnonymousClientConfig(i.lease.Config)
	cfg.BearerToken = token.Status.Token
	return cfg, nil
}

// stop ends the replica. It returns an error if the replica ended by itself or does not end.
func (r *replica) stop() error {
	select {
	case <-r.done:
		return errors.Join(errStopped, r.err)
	default:
	}
	r.cancel()
	select {
	case <-r.done:
		return r.err
	case <-time.After(stopTimeout + quiet):
		return fmt.Errorf("the replica is still running %v after it was stopped", stopTimeout)
	}
}

// writes returns the writes of the replica except those of events.
func (r *replica) writes() []recorder.Request {
	return slices.DeleteFunc(r.requests.Writes(), func(req recorder.Request) bool { return req.Resource == "events" })
}

// reconcile creates the example and waits until the operator has reconciled it.
func (i *installation) reconcile(ctx context.Context, name string) error {
	for _, o := range i.operator.Example(i.exampleNamespace, name) {
		o.SetNamespace(i.exampleNamespace)
		if err := i.client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
		kind, err := apiutil.GVKForObject(o, i.client.Scheme())
		if err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
		what := fmt.Sprintf("%s %s/%s", kind.Kind, i.exampleNamespace, o.GetName())
		if err := i.waitFor(ctx, what, func(ctx context.Context) (string, error) {
			got := &unstructured.Unstructured{}
			got.SetGroupVersionKind(kind)
			if err := i.client.Get(ctx, client.ObjectKeyFromObject(o), got); err != nil {
				return "", err
			}
			return i.missing(got), i.ended()
		}); err != nil {
			return err
		}
	}
	return nil
}

func (i *installation) missing(o *unstructured.Unstructured) string {
	if i.operator.Missing != nil {
		return i.operator.Missing(o)
	}
	return readiness.Missing(o)
}

// ended returns an error if the last replica has ended by itself.
func (i *installation) ended() error {
	last := i.replicas[len(i.replicas)-1]
	select {
	case <-last.done:
		return errors.Join(errStopped, last.err)
	default:
		return nil
	}
}
