package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
	"github.com/homeostat-dev/homeostat/sdk/webhook/internal/authority"
)

// namespaceFile holds the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// server is the webhook server of one program. [DefineFlags] makes it.
type server struct {
	address       string
	certDir       string
	service       string
	configuration string
	lifetime      time.Duration

	running *running // nil before the first setup
}

// uses is what a server has to know of the webhooks of one kind.
type uses struct {
	kind                schema.GroupKind
	validates, defaults bool
	conversion          http.Handler
}

// running is the server in a manager.
type running struct {
	webhook.Server

	mgr         manager.Manager
	authority   *authority.Authority // nil with files
	conversions conversions
}

// setup adds the server to the manager, once, and returns the function that registers a handler.
func (s *server) setup(mgr manager.Manager, u uses) (register func(path string, hook http.Handler), err error) {
	if s.address == "0" {
		return func(string, http.Handler) {}, nil
	}
	if s.running == nil {
		if err := s.start(mgr); err != nil {
			return nil, err
		}
	}
	r := s.running
	if r.mgr != mgr {
		return nil, errors.New("the flags belong to another manager: a set of flags is for one run of a program")
	}
	if err := r.target(u, s.configuration); err != nil {
		return nil, err
	}
	return func(path string, hook http.Handler) {
		switch {
		case path != ConversionPath:
			r.Register(path, hook)
		case len(r.conversions) == 0:
			r.Register(path, r.conversions)
			fallthrough
		default:
			r.conversions[u.kind] = hook
		}
	}, nil
}

// start prepares the server: the manager starts it.
func (s *server) start(mgr manager.Manager) error {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return fmt.Errorf("--%s: %w", addressFlag, err)
	}
	number, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port) // it makes no request
	if err != nil {
		return fmt.Errorf("--%s: %w", addressFlag, err)
	}
	options := webhook.Options{Host: host, Port: number, CertDir: s.certDir}
	r := &running{mgr: mgr, conversions: conversions{}}
	log := mgr.GetLogger().WithName("webhook")
	if s.certDir != "" {
		log.Info("Webhooks use the certificate in a folder", "folder", s.certDir)
	} else {
		if r.authority, err = s.newAuthority(mgr); err != nil {
			return err
		}
		options.TLSOpts = append(options.TLSOpts, func(c *tls.Config) { c.GetCertificate = r.authority.Certificate })
		log.Info("Webhooks renew their own certificate", "service", r.authority.DNSNames[0],
			"secret", r.authority.Secret.String(), "configuration", s.configuration)
	}
	r.Server = webhook.NewServer(options)
	if err := mgr.AddReadyzCheck("webhook", r.check(r.Server.StartedChecker())); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the webhook server: %w", err)
	}
	s.running = r
	return nil
}

// newAuthority returns the authority for the certificate of the Service.
func (s *server) newAuthority(mgr manager.Manager) (*authority.Authority, error) {
	namespace, name, found := strings.Cut(s.service, "/")
	if !found {
		name = namespace
		content, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, setup.NewFlagError("--%s=%s: the program does not run in a cluster, whose namespace it would take: "+
				"set it to NAMESPACE/NAME, or set --%s", serviceFlag, s.service, certDirFlag)
		}
		namespace = strings.TrimSpace(string(content))
	}
	c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &authority.Authority{
		Client: c, Log: mgr.GetLogger().WithName("webhook"), Name: name, Lifetime: s.lifetime,
		Secret:   types.NamespacedName{Namespace: namespace, Name: name + "-ca"},
		DNSNames: []string{name + "." + namespace + ".svc", name + "." + namespace + ".svc.cluster.local"},
	}, nil
}

// target adds the objects that tell the API server of the webhooks.
func (r *running) target(u uses, configuration string) error {
	if r.authority == nil {
		return nil
	}
	add := func(kind schema.GroupVersionKind, name string) {
		for _, t := range r.authority.Targets {
			if t.Kind == kind && t.Name == name {
				return
			}
		}
		r.authority.Targets = append(r.authority.Targets, authority.Target{Kind: kind, Name: name})
	}
	if u.validates {
		add(authority.ValidatingConfiguration, configuration)
	}
	if u.defaults {
		add(authority.MutatingConfiguration, configuration)
	}
	if u.conversion != nil {
		mapping, err := r.mgr.GetRESTMapper().RESTMapping(u.kind)
		if err != nil {
			return fmt.Errorf("finding the CustomResourceDefinition of %s: %w", u.kind, err)
		}
		add(authority.CustomResourceDefinition, mapping.Resource.Resource+"."+u.kind.Group)
	}
	return nil
}

// Start implements manager.Runnable. The manager starts webhook servers first: informers need the conversion of their kinds.
func (r *running) Start(ctx context.Context) error {
	if r.authority != nil {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.authority.Run(ctx)
		}()
		defer func() { cancel(); <-done }()
	}
	return r.Server.Start(ctx)
}

// check returns the readiness check: the server has a certificate, and listens.
func (r *running) check(started healthz.Checker) healthz.Checker {
	return func(req *http.Request) error {
		if r.authority != nil {
			if err := r.authority.Ready(); err != nil {
				return err
			}
		}
		return started(req)
	}
}
