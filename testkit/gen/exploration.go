package gen

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// exploration holds the parts that all runs of one test share. It is safe for concurrent use.
type exploration struct {
	*config

	op     testkit.Runnable
	k      *testkit.K
	x      *explore.Explorer
	schema *schema.Schema
	sample *unstructured.Unstructured
	slots  chan struct{} // limits concurrent reference runs

	// Properties of the sample: it becomes Ready; its status reports an observed generation.
	ready, reportsGeneration bool

	mu         sync.Mutex
	mask       state.Mask
	references map[string]*entry // by manifest
}

func newExploration(
	k *testkit.K, op testkit.Runnable, cfg *config, s *schema.Schema, sample *unstructured.Unstructured,
) (*exploration, error) {
	normal, err := s.Normal(sample)
	if err != nil {
		return nil, fmt.Errorf("reading the sample: %w", err)
	}
	normal.SetNamespace("") // each run has its own
	c := &exploration{
		config: cfg, op: op, k: k, schema: s, sample: schema.Manifest(normal),
		slots: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), // runs wait more than they compute
		mask:  cfg.ignored, references: map[string]*entry{},
	}
	cfg.Options.Name = s.Kind.Kind
	cfg.Options.Subject = c.subject()
	return c, nil
}

// subject returns the operator for the explorer.
func (ex *exploration) subject() explore.Subject {
	return kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
		if ex.account != "" {
			opts = append(opts, testkit.WithConfig(k.ServiceAccount(ex.account)))
		}
		if !ex.schema.Namespaced {
			opts = append(opts, testkit.ClusterWide())
		}
		return k.Run(kitadapter.Operator(ex.op, k), slices.Concat(ex.start, opts)...)
	})
}

// checkSample runs the operator on the sample, which must succeed.
func (ex *exploration) checkSample(ctx context.Context) error {
	ref, err := ex.reference(ctx, ex.sample, thorough)
	switch {
	case err != nil:
		return err
	case ref.invalid != "":
		return fmt.Errorf("the API server refuses the sample: %s", ref.invalid)
	case ref.stuck != "":
		return fmt.Errorf("the operator cannot carry out the sample (%s): give one that it can, "+
			"and what that refers to with gen.BeforeRun", ref.stuck)
	case ref.violation != nil:
		return errors.New(ref.violation.text("", "the sample, without any change"))
	}
	ex.ready = ref.ready
	ex.reportsGeneration = ref.reportsGeneration
	return nil
}
