package sandbox

import (
	"context"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// RealNodes makes the nodes of a sandbox real: pods are containers. It needs Linux and root.
type RealNodes struct {
	// Programs are those of assets.FindNodes.
	Programs assets.Set
	// Images are folders with images, as in cluster.Options. The nodes find those of the operators as well.
	Images []string
}

// startInPods builds the images of the operators, and installs the operators with their Deployments. With WithoutOperators
// it makes only the images available.
func (s *Sandbox) startInPods(ctx context.Context, programs []string) error {
	for i, p := range s.opts.Projects {
		s.report("making the image of operator %s", p.Name)
		if err := s.pushImage(ctx, p, programs[i]); err != nil {
			return fmt.Errorf("installing operator %s: %w", p.Name, err)
		}
	}
	if s.opts.WithoutOperators {
		return nil
	}
	for _, p := range s.opts.Projects {
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
	}
	return nil
}

// pushImage makes an image with the program of an operator, and gives it to the nodes under the name in the operator's
// Deployment.
func (s *Sandbox) pushImage(ctx context.Context, p *Project, program string) error {
	hub := realnode.Hub{Socket: filepath.Join(s.lease.Dir, spec.ControlSocket)}
	return hub.LoadProgram(ctx, p.Deployment.Spec.Template.Spec.Containers[0].Image, program)
}
