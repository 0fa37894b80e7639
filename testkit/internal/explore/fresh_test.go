package explore_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
)

// An edit or a removal that never takes effect is found without any fault. The message says which side is odd. A correct
// operator passes, and its states are compared.
func TestFresh(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"every-run/url-stays": `after step "remove the host" apps.mutants.homeostat.dev/shop still has status.url`,
		"injector/keeps-edit": `after step "opt out" configmaps/blog still has metadata.annotations`,
		"every-run/correct":   "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mutantOptions(t, name)
			o.SelectPlan = func(string) bool { return false }
			o.Replay = func(plan string) string { return "replay " + plan }
			r := run(t, o)
			failed := r.Failures()
			switch {
			case want == "" && len(failed) > 0, want != "" && len(failed) != 1:
				t.Fatalf("violations %v\n%s", violationsOf(r), text(t, r))
			case want == "":
			case failed[0].Violations[0].Oracle != "fresh" || !strings.HasPrefix(failed[0].Violations[0].Message, want):
				t.Errorf("%+v, want %q", failed[0].Violations, want)
			case failed[0].Replay != "replay none/1": // the comparisons follow the runs without a fault
				t.Errorf("replayed by %q", failed[0].Replay)
			}
			for _, note := range r.Notes {
				if strings.Contains(note, "fresh") {
					t.Errorf("not compared: %s", note)
				}
			}
		})
	}
}

// Objects that the steps have changed but not created cannot be made in another namespace. The report says so.
func TestFreshOfForeignObjects(t *testing.T) {
	t.Parallel()
	o := mutantOptions(t, "every-run/correct")
	o.SelectPlan = func(string) bool { return false }
	o.Steps = append(o.Steps[:1:1], kitadapter.Step("change the Service", func(k *testkit.K) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		k.Update(service, func() { metav1.SetMetaDataAnnotation(&service.ObjectMeta, "example.com/seen", "yes") })
	}))
	r := run(t, o)
	if got := violationsOf(r); len(got) > 0 {
		t.Errorf("violations %v\n%s", got, text(t, r))
	}
	const want = `the state after step "change the Service" is not compared with that of a fresh operator: ` +
		"a step changes an object that the scenario did not create"
	if got := strings.Join(r.Notes, "\n"); got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}
