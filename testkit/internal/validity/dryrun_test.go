package validity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/sequence"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// TestDryRunAgreesWithCreate checks every change of a sample: the dry run of a create agrees with a real create, and
// with the rules that need no server. Nearly all changes are valid, and the others are rejected with a reason.
func TestDryRunAgreesWithCreate(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"database", "immortal"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, sample := read(t, kind)
			agreesWithCreate(t, s, sample)
		})
	}
}

func agreesWithCreate(t *testing.T, s *schema.Schema, sample *unstructured.Unstructured) {
	t.Helper()
	k := testkit.New(t)
	dry := &validity.Count{Validator: validity.DryRun{Client: k.Client, Namespace: k.Namespace}}
	rules := validity.NewRules(s)
	count := 0
	changes, err := s.Mutations(sample)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range changes {
		if testing.Short() && i%4 != 0 {
			continue
		}
		count++
		obj, _ := c.Apply(sample)
		said, err := dry.Validate(t.Context(), nil, obj)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		if !said.Valid && (said.Sentence == "" || len(said.Causes) == 0) {
			t.Errorf("%s is rejected without a reason: %+v", c.ID, said)
		}
		if offline, err := rules.Validate(t.Context(), nil, obj); err != nil || offline.Valid != said.Valid {
			t.Errorf("%s: without a server valid %v (%s, error %v), with one %v (%s)",
				c.ID, offline.Valid, offline.Sentence, err, said.Valid, said.Sentence)
		}
		obj.SetNamespace(k.Namespace)
		obj.SetName(name(i))
		agrees(t, c.ID, said, k.Client.Create(t.Context(), obj))
	}
	all := dry.Valid() + dry.Rejected()
	t.Logf("%d of %d changes: %v", count, len(changes), dry)
	if all != count || len(changes) < 200 || dry.Valid() < all*80/100 || dry.Rejected() == 0 {
		t.Errorf("of %d changes %d are valid", count, dry.Valid())
	}
}

// TestDryRunAgreesWithUpdate checks the same for updates, over a random walk.
func TestDryRunAgreesWithUpdate(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"database", "immortal"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, sample := read(t, kind)
			agreesWithUpdate(t, s, sample)
		})
	}
}

func agreesWithUpdate(t *testing.T, s *schema.Schema, sample *unstructured.Unstructured) {
	t.Helper()
	k := testkit.New(t)
	dry := validity.DryRun{Client: k.Client, Namespace: k.Namespace}
	agreed := &validity.Count{Validator: both{t, dry, validity.NewRules(s)}}
	g, err := sequence.New(s, sample, agreed, 11)
	if err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{}
	for range 40 {
		step, err := g.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		obj := step.Object
		obj.SetNamespace(k.Namespace)
		if stored.GetResourceVersion() == "" {
			err = k.Client.Create(t.Context(), obj)
		} else {
			obj.SetResourceVersion(stored.GetResourceVersion())
			err = k.Client.Update(t.Context(), obj)
		}
		if err != nil {
			t.Fatalf("the dry run accepted %v, the server does not: %v", step, err)
		}
		stored = obj
	}
	t.Logf("%v\n%v", agreed, g.Coverage())
	if agreed.Rejected() == 0 {
		t.Error("nothing was rejected, so the two may agree by chance")
	}
}

// TestDryRunRejects checks that a rejected object is rejected by a real update, too.
func TestDryRunRejects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		path   schema.Path
		value  any
		want   string
	}{
		"engine":  {"the rule compares with the stored object", schema.At("spec", "engine"), "mysql", "cannot change"},
		"storage": {"as above", schema.At("spec", "storage"), schema.Absent, "storage cannot be given up"},
		"version": {"the pattern", schema.At("spec", "version"), "new", "spec.version"},
		"unknown": {"strict validation", schema.At("spec", "imaeg"), "a", `unknown field "spec.imaeg"`},
	}
	k, sample := testkit.New(t), sample(t)
	dry := validity.DryRun{Client: k.Client, Namespace: k.Namespace}
	k.Apply(sample.DeepCopy())
	for name, tc := range tests {
		changed, _ := schema.Change{Path: tc.path, To: tc.value}.Apply(sample)
		verdict, err := dry.Validate(t.Context(), sample, changed)
		if err != nil || verdict.Valid || !strings.Contains(verdict.Sentence, tc.want) {
			t.Errorf("%s: %s: error %v, verdict %+v", name, tc.reason, err, verdict)
		}
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	t.Parallel()
	k, sample := testkit.New(t), sample(t)
	dry := validity.DryRun{Client: k.Client, Namespace: k.Namespace}
	if verdict, err := dry.Validate(t.Context(), nil, sample); err != nil || !verdict.Valid {
		t.Fatalf("error %v, verdict %+v", err, verdict)
	}
	stored := sample.DeepCopy()
	stored.SetNamespace(k.Namespace)
	if err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); !apierrors.IsNotFound(err) {
		t.Errorf("the dry run created an object: %v", err)
	}
	changed, _ := schema.Change{Path: schema.At("spec", "members"), To: int64(5)}.Apply(sample)
	if _, err := dry.Validate(t.Context(), sample, changed); !apierrors.IsNotFound(err) {
		t.Errorf("an update of a missing object has a verdict: %v", err)
	}
	k.Apply(stored)
	version := stored.GetResourceVersion()
	for from, to := range map[*unstructured.Unstructured]*unstructured.Unstructured{nil: sample, sample: changed} {
		if verdict, err := dry.Validate(t.Context(), from, to); err != nil || !verdict.Valid {
			t.Errorf("error %v, verdict %+v: a name in use does not make the object invalid", err, verdict)
		}
	}
	if k.Get(stored); stored.GetResourceVersion() != version {
		t.Error("the dry run changed the object")
	}
}

// TestDryRunOfANameInUse checks that an existing name hides no mistake, because it is checked last.
func TestDryRunOfANameInUse(t *testing.T) {
	t.Parallel()
	k, sample := testkit.New(t), sample(t)
	dry := validity.DryRun{Client: k.Client, Namespace: k.Namespace}
	k.Apply(sample.DeepCopy())
	bad, _ := schema.Change{Path: schema.At("spec", "exposure"), To: map[string]any{}}.Apply(sample)
	if verdict, err := dry.Validate(t.Context(), nil, bad); err != nil || verdict.Valid {
		t.Errorf("error %v, verdict %+v", err, verdict)
	}
}

// policy requires at least 3 members in one namespace.
const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    resourceRules:
    - {apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: [databases]}
  validations:
  - {expression: object.spec.members < 3, message: two are enough}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`

// TestDryRunObeysPolicies checks a policy of the cluster that the schema does not contain.
func TestDryRunObeysPolicies(t *testing.T) {
	t.Parallel()
	k, sample := testkit.New(t), sample(t)
	dry := validity.DryRun{Client: k.Client, Namespace: k.Namespace}
	objects, err := manifest.Decode(fmt.Appendf(nil, policy, k.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		k.Apply(obj)
	}
	ctx, cancel := context.WithTimeout(t.Context(), k.Timeout)
	defer cancel()
	for { // until the policy is in effect
		verdict, err := dry.Validate(ctx, nil, sample)
		if err != nil {
			t.Fatal(err)
		}
		if !verdict.Valid {
			if !strings.Contains(verdict.Sentence, "two are enough") || len(verdict.Causes) == 0 {
				t.Errorf("verdict %+v", verdict)
			}
			return
		}
	}
}

func TestDryRunWithoutAnswer(t *testing.T) {
	t.Parallel()
	k, sample := testkit.New(t), sample(t)
	dry := validity.DryRun{Client: k.Client, Namespace: "no-such-namespace"}
	if verdict, err := dry.Validate(t.Context(), nil, sample); err == nil {
		t.Errorf("a missing namespace is reported as a mistake of the object: %+v", verdict)
	}
	sample.SetAPIVersion("testkit.homeostat.dev/v2")
	dry.Namespace = k.Namespace
	if verdict, err := dry.Validate(t.Context(), nil, sample); err == nil {
		t.Errorf("a kind that is not installed is reported as a mistake of the object: %+v", verdict)
	}
}
