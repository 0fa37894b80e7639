package sequence

import (
	"context"
	"fmt"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// A Sequence lists the successive states of a custom resource. The first manifest creates it, the others replace it.
type Sequence []*unstructured.Unstructured

// Decode converts bytes to a sequence, as FromBytes does, without checking validity beyond the schema. It begins with
// the sample. It is an error if the sample is not of the schema's kind.
func Decode(s *schema.Schema, sample *unstructured.Unstructured, data []byte) (Sequence, error) {
	g, err := FromBytes(s, sample, validity.AcceptAll{}, data)
	if err != nil {
		return nil, err
	}
	// Each step consumes bytes, so the loop terminates.
	steps, err := g.Take(context.Background(), math.MaxInt)
	if err != nil {
		return nil, err
	}
	return Objects(steps), nil
}

// Objects returns the manifests of steps.
func Objects(steps []Step) Sequence {
	objects := make(Sequence, len(steps))
	for i, step := range steps {
		objects[i] = step.Object
	}
	return objects
}

// String formats the first manifest as YAML, and the differences of each later one.
func (s Sequence) String() string {
	var b strings.Builder
	for i, obj := range s {
		if i > 0 {
			fmt.Fprintf(&b, "--- then\n")
			for _, c := range schema.Diff(s[i-1], obj) {
				fmt.Fprintf(&b, "%v\n", c)
			}
			continue
		}
		data, err := schema.Render(obj)
		if err != nil {
			data = []byte(err.Error() + "\n")
		}
		b.Write(data)
	}
	return b.String()
}

func (s Sequence) clone() Sequence {
	c := make(Sequence, len(s))
	for i, obj := range s {
		c[i] = obj.DeepCopy()
	}
	return c
}
