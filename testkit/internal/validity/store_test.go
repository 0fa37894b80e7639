package validity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/validity"
)

// TestStore checks that a manifest replaces the previous one except for metadata of other actors, and that a rejected
// manifest changes nothing.
func TestStore(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	store := validity.Store{Client: k.Client, Namespace: k.Namespace}
	first := sample(t)
	check := func(valid bool, verdict validity.Verdict, err error) {
		t.Helper()
		if err != nil || verdict.Valid != valid {
			t.Fatalf("valid is %v, want %v: %s, error %v", verdict.Valid, valid, verdict.Sentence, err)
		}
	}
	verdict, err := store.Validate(t.Context(), nil, first)
	check(true, verdict, err)

	stored := first.DeepCopy()
	k.Update(stored, func() { stored.SetFinalizers([]string{"example.com/theirs"}) })
	second := first.DeepCopy()
	second.SetLabels(map[string]string{"example.com/other": "yes"})
	second.Object["spec"].(map[string]any)["members"] = int64(5)
	verdict, err = store.Validate(t.Context(), first, second)
	check(true, verdict, err)

	bad := second.DeepCopy()
	bad.Object["spec"].(map[string]any)["members"] = "many"
	verdict, err = store.Validate(t.Context(), second, bad)
	check(false, verdict, err)

	k.Get(stored)
	got := map[string]any{
		"labels": stored.GetLabels(), "finalizers": stored.GetFinalizers(),
		"members": stored.Object["spec"].(map[string]any)["members"],
	}
	want := map[string]any{
		"labels": second.GetLabels(), "finalizers": []string{"example.com/theirs"}, "members": int64(5),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the stored object (-want +got):\n%s", diff)
	}
	k.Update(stored, func() { stored.SetFinalizers(nil) })
	if err := k.Client.Delete(t.Context(), stored); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}
