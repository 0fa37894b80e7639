package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

// newExplorer returns an explorer of one operator, and a function that closes it.
func newExplorer(ctx context.Context, m mutants.Mutant, o options) (x *explore.Explorer, end func(), err error) {
	cfg, err := testkit.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	var steps []explore.Step
	for _, s := range m.Steps {
		steps = append(steps, kitadapter.Step(s.Name, s.Do))
	}
	subject, folder := inProcess(m, cfg), ""
	if o.proxy {
		if subject, folder, err = program(m, cfg); err != nil {
			return nil, nil, err
		}
	}
	clean := func() { _ = os.RemoveAll(folder) } // does nothing without a folder
	x, err = explore.New(ctx, cfg, explore.Options{
		Name: m.Name, Faults: explore.Faults(), Opener: kitadapter.Open, Steps: steps, Short: o.guard,
		StopAtFailure: !m.IsCorrect(), Subject: subject, HideShared: o.proxy, // as testkit explore does
		SelectPlan: func(plan string) bool { return strings.Contains(plan, o.plan) },
	})
	if err != nil {
		clean()
		return nil, nil, err
	}
	return x, func() { x.Close(); clean() }, nil
}

// inProcess returns an operator that runs in this process. One of all namespaces has all permissions, because the roles of
// a ServiceAccount are limited to the namespace of the run.
func inProcess(m mutants.Mutant, admin *rest.Config) explore.Subject {
	return kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
		if m.ClusterWide {
			return k.Start(m.Setup, append(opts, testkit.ClusterWide(), testkit.WithConfig(admin))...)
		}
		return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
	})
}

// program returns an operator that runs as a process of this program: see serveOperator. It has the permissions of
// inProcess.
func program(m mutants.Mutant, admin *rest.Config) (subject explore.Subject, folder string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("finding this program: %w", err)
	}
	if folder, err = os.MkdirTemp("", "mutants-"); err != nil {
		return nil, "", fmt.Errorf("making a folder for the operators: %w", err)
	}
	return &explore.Command{
		Args: []string{self, "-serve", m.Name}, Folder: folder,
		Target: func(s *space.Space) (*rest.Config, error) {
			if m.ClusterWide {
				return rest.CopyConfig(admin), nil
			}
			return kitadapter.ServiceAccount(s, m.ServiceAccount)
		},
	}, folder, nil
}
