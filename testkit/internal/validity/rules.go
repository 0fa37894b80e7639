package validity

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// Rules is the validator that needs no API server. It evaluates the schema of a custom resource and its CEL rules, with
// the API server's code. It evaluates no webhook, policy or quota, and does not check names, labels or annotations.
type Rules struct {
	schema *schema.Schema
	cel    *cel.Validator // nil if there are no rules
}

// NewRules compiles the CEL rules of a schema.
func NewRules(s *schema.Schema) *Rules {
	return &Rules{schema: s, cel: cel.NewValidator(s.Structural(), true, celconfig.PerCallLimit)}
}

// Validate evaluates the schema and the rules. Transition rules see from as the old object.
func (r *Rules) Validate(ctx context.Context, from, to *unstructured.Unstructured) (Verdict, error) {
	violations, err := r.schema.Violations(to)
	if err != nil {
		return Verdict{}, fmt.Errorf("judging an object: %w", err)
	}
	if len(violations) == 0 && r.cel != nil {
		if violations, err = r.evaluate(ctx, from, to); err != nil {
			return Verdict{}, fmt.Errorf("judging an object: %w", err)
		}
	}
	if len(violations) == 0 {
		return Verdict{Valid: true}, nil
	}
	verdict := Verdict{Sentence: fmt.Sprintf("%s %q is invalid: %v", to.GetKind(), to.GetName(), violations.ToAggregate())}
	for _, v := range violations {
		verdict.Causes = append(verdict.Causes,
			Cause{Field: v.Field, Reason: string(metav1.CauseType(v.Type)), Message: v.ErrorBody()})
	}
	return verdict, nil
}

func (r *Rules) evaluate(ctx context.Context, from, to *unstructured.Unstructured) (field.ErrorList, error) {
	object, err := r.stored(to)
	if err != nil {
		return nil, err
	}
	var old any // a nil interface means that there is no old object
	if from != nil {
		if old, err = r.stored(from); err != nil {
			return nil, err
		}
	}
	violations, _ := r.cel.Validate(ctx, nil, r.schema.Structural(), object, old, celconfig.RuntimeCELCostBudget)
	return violations, nil
}

// stored returns the content of an object with its defaults.
func (r *Rules) stored(obj *unstructured.Unstructured) (map[string]any, error) {
	normal, err := r.schema.Normal(obj)
	if err != nil {
		return nil, err
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(normal.Object, r.schema.Structural())
	defaulting.Default(normal.Object, r.schema.Structural())
	return normal.Object, nil
}
