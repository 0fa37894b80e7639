package v1alpha1_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The API server evaluates rules on every write of the status too. Objects stored under the CRD of the founding article,
// which had no rules, must keep their status and allow a repair.
func TestOldObjectsKeepTheirStatus(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	long, white := strings.Repeat("a", 60), "nginx latest"
	strict := &apiextensionsv1.CustomResourceDefinition{}
	strict.Name = "immortalcontainers.immortalcontainer.flugel.it"
	k.Get(strict)
	rules := strict.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations
	if len(rules) == 0 {
		t.Fatal("the CRD has no rules for the whole object: the test tests nothing")
	}
	setRules(k, strict, nil)
	old := map[string]string{long: "a", "white": white}
	for name, image := range old {
		k.Wait("objects without rules are accepted", func(ctx context.Context) error {
			o := container(t, name, "image: "+image)
			o.SetNamespace(k.Namespace)
			return client.IgnoreAlreadyExists(k.Client.Create(ctx, o))
		})
	}
	setRules(k, strict, rules)
	k.Wait("the rules are in force", func(ctx context.Context) error {
		o := container(t, "probe", "{}")
		o.SetNamespace(k.Namespace)
		if err := k.Client.Create(ctx, o, client.DryRunAll); !apierrors.IsInvalid(err) {
			return errors.Join(errors.New("an object without an image is accepted"), err)
		}
		return nil
	})
	for name, image := range old {
		ic := &v1alpha1.ImmortalContainer{}
		ic.Name = name
		ic.Namespace = k.Namespace
		k.UpdateStatus(ic, func() { ic.Status.StartTimes++ })
		k.Update(ic, func() { ic.Labels = map[string]string{"still": "open"} })
		k.Update(ic, func() { ic.Spec.Image = "nginx" })
		k.UpdateStatus(ic, func() { ic.Status.StartTimes++ })
		if ic.Status.StartTimes != 2 {
			t.Errorf("image %q: startTimes is %d, want 2", image, ic.Status.StartTimes)
		}
	}
}

func setRules(k *testkit.K, crd *apiextensionsv1.CustomResourceDefinition, rules apiextensionsv1.ValidationRules) {
	k.Update(crd, func() { crd.Spec.Versions[0].Schema.OpenAPIV3Schema.XValidations = rules })
}
