package cloud

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A paused object and dry runs cause no request.
func TestDryRuns(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c, client := start(k)
	for name, annotation := range map[string]string{"paused": sdk.PausedAnnotation, "dry": sdk.DryRunAnnotation} {
		site := newSite(1, true)
		site.Name = name
		site.Annotations = map[string]string{annotation: "true"}
		k.Apply(site)
	}
	dry := &Site{ObjectMeta: metav1.ObjectMeta{Name: "dry"}}
	k.Eventually(dry, testkit.Match("a plan", func(s *Site) bool {
		return conditions.Get(s, "DryRun") != nil &&
			strings.Contains(conditions.Get(s, "DryRun").Message, "create external bucket data; create external bucket logs")
	}))
	paused := &Site{ObjectMeta: metav1.ObjectMeta{Name: "paused"}}
	k.Eventually(paused, testkit.Match("paused", func(s *Site) bool { return conditions.IsTrue(s, "Paused") }))
	plan := sdk.Dry(t.Context(), New(client.Buckets()), newSite(7, false))
	if want := "create external bucket data\n      input: {\"size\":7}"; !strings.Contains(plan.String(), want) {
		t.Errorf("the plan should have %q:\n%s", want, plan)
	}
	if n := c.count(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// The dry-run annotation of an object that is being deleted says which external resources would be deleted.
func TestDryRunOfDeletion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c, _ := start(k)
	site := newSite(1, true)
	k.Apply(site)
	k.Eventually(site, testkit.Ready())
	k.Update(site, func() { site.Annotations = map[string]string{sdk.DryRunAnnotation: "true"} })
	before := c.count()
	if err := k.Client.Delete(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	k.Eventually(site, testkit.Match("a plan of the deletion", func(s *Site) bool {
		return conditions.Get(s, "DryRun") != nil && conditions.Get(s, "DryRun").Message ==
			"would clean up; delete external bucket logs; delete external bucket data; and let the object go"
	}))
	if n := c.count(); n != before {
		t.Errorf("%d requests", n-before)
	}
	k.Update(site, func() { site.Annotations = nil })
	k.Eventually(site, testkit.Gone())
}
