package sandbox

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/internal/egress"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// RealNodes makes the nodes of a sandbox real: pods are containers. It needs Linux and root.
type RealNodes struct {
	// Programs are those of assets.FindNodes.
	Programs assets.Set
	// Images are folders with images, as in cluster.Options. The nodes find those of the operators as well.
	Images []string
	// Ingress starts an Ingress controller: see Sandbox.Ingress.
	Ingress bool
	// Metrics starts metrics-server, for HorizontalPodAutoscalers and kubectl top.
	Metrics bool
}

// request returns what the cluster is started with.
func (n *RealNodes) request() environment.RealNodes {
	return environment.RealNodes{NodePrograms: n.Programs.Dir, Images: n.Images, Ingress: n.Ingress, Metrics: n.Metrics}
}

// startInPods builds the images of the operators, and installs the operators with their Deployments. With WithoutOperators
// it makes only the images available.
func (s *Sandbox) startInPods(ctx context.Context, programs []string) error {
	return s.forEachProject(ctx, func(ctx context.Context, i int, p *Project) error {
		s.report("making the image of operator %s", p.Name)
		if err := s.pushImage(ctx, p, programs[i]); err != nil {
			return fmt.Errorf("installing operator %s: %w", p.Name, err)
		}
		if s.opts.WithoutOperators {
			return nil
		}
		if err := s.install(ctx, p); err != nil {
			return err
		}
		deployment, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.Deployment)
		if err != nil {
			return fmt.Errorf("installing operator %s: %w", p.Name, err)
		}
		u := &unstructured.Unstructured{Object: deployment}
		u.SetGroupVersionKind(deploymentKind)
		if err := manifest.Install(ctx, s.config, []*unstructured.Unstructured{u}); err != nil {
			return fmt.Errorf("installing operator %s: %w", p.Name, err)
		}
		return nil
	})
}

// pushImage makes an image with the program of an operator, and gives it to the nodes under the name in the operator's
// Deployment.
func (s *Sandbox) pushImage(ctx context.Context, p *Project, program string) error {
	return s.hub().LoadProgram(ctx, p.Deployment.Spec.Template.Spec.Containers[0].Image, program)
}

func (s *Sandbox) hub() realnode.Hub {
	return realnode.Hub{Socket: filepath.Join(s.lease.Dir, spec.ControlSocket)}
}

// IngressAddresses has the addresses of the Ingress controller on this machine, such as 127.0.0.1:34567.
type IngressAddresses struct{ HTTP, HTTPS string }

// Ingress returns the addresses of the Ingress controller, which are empty without RealNodes.Ingress. They are valid until
// Stop. All users of the machine can connect to them.
func (s *Sandbox) Ingress() IngressAddresses { return s.ingress.addresses }

// An ingress has the loopback listeners for the Ingress controller, or none.
type ingress struct {
	addresses IngressAddresses
	cancel    context.CancelFunc // nil without listeners
}

func (i *ingress) close() {
	if i.cancel != nil {
		i.cancel()
	}
}

// serveIngress serves the Ingress controller at loopback addresses until Stop.
func (s *Sandbox) serveIngress() error {
	if s.opts.Real == nil || !s.opts.Real.Ingress {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.ingress.cancel = cancel
	for server, address := range map[string]*string{
		spec.IngressHTTP: &s.ingress.addresses.HTTP, spec.IngressHTTPS: &s.ingress.addresses.HTTPS,
	} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", "0"))
		if err != nil {
			return fmt.Errorf("serving the Ingress controller: %w", err)
		}
		egress.Forward(ctx, listener, func(ctx context.Context) (net.Conn, error) { return s.hub().Dial(ctx, server) })
		*address = listener.Addr().String()
	}
	return nil
}
