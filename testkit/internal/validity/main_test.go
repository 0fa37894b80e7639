package validity_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{CRDs: "../schema/testdata/crd"}) }

// both asks two validators that have to agree.
type both struct {
	t           *testing.T
	first, then validity.Validator
}

func (b both) Validate(ctx context.Context, from, to *unstructured.Unstructured) (validity.Verdict, error) {
	verdict, err := b.first.Validate(ctx, from, to)
	if err != nil {
		return verdict, err
	}
	if other, err := b.then.Validate(ctx, from, to); err != nil || other.Valid != verdict.Valid {
		b.t.Errorf("one returns %v (%s), the other %v (%s), error %v, for\n%v",
			verdict.Valid, verdict.Sentence, other.Valid, other.Sentence, err, schema.Diff(from, to))
	}
	return verdict, nil
}

// agrees compares a verdict with the result of the real request.
func agrees(t *testing.T, id string, said validity.Verdict, err error) {
	t.Helper()
	if said.Valid != (err == nil) {
		t.Errorf("%s: the dry run returns valid %v (%s), the server %v", id, said.Valid, said.Sentence, err)
	}
}

func name(i int) string { return fmt.Sprintf("orders-%d", i) }

func sample(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	_, obj := read(t, "database")
	return obj
}

// read reads a schema and a sample from the shared test files.
func read(t testing.TB, kind string) (*schema.Schema, *unstructured.Unstructured) {
	t.Helper()
	data, err := os.ReadFile("../schema/testdata/crd/" + kind + "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Parse(data, "")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Read("../schema/testdata/" + kind + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s.Normal(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	return s, obj
}
