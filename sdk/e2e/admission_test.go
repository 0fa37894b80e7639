package e2e

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// rewrite makes the API server prefix the text of every ConfigMap in the test's namespace, as a webhook does that redirects
// images to a mirror. It returns when the policy takes effect.
func rewrite(k *testkit.K) {
	name := k.Namespace + ".e2e.homeostat.dev"
	const expression = `!has(object.data) || !has(object.data.text) || object.data.text.startsWith("mirror/") ? Object{} : ` +
		`Object{data: {"text": "mirror/" + object.data.text}}`
	k.Apply(&admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: k.Namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
						},
					},
				}},
			},
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
			}},
		},
	})
	k.Apply(&admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	})
	k.Wait("the policy takes effect", func(ctx context.Context) error {
		probe := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "probe"}, Data: map[string]string{"text": "x"},
		}
		if err := k.Client.Create(ctx, probe, client.DryRunAll); err != nil || probe.Data["text"] != "mirror/x" {
			return errors.Join(err, errors.New("it does not"))
		}
		return nil
	})
}

// The operator accepts the stored value of an owned field that admission rewrites at every write. The same holds for a list
// that admission lengthens, as it does with the tolerations of every pod.
func TestAdmissionThatRewritesAnOwnedField(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	rewrite(k)
	var passes atomic.Int64
	op := operator(func(ctx context.Context, p *pass) error {
		passes.Add(1)
		sdk.Apply(p, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "tolerant"}, Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "a", Image: "a"}},
			Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		}}, sdk.ReadyWhen(func(*corev1.Pod) (bool, string) { return true, "" }))
		return oneChild(ctx, p)
	})
	op.Resync = 20 * time.Millisecond
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	c := named(&corev1.ConfigMap{}, s.Name)
	k.Eventually(c, text("mirror/hello"))
	k.Eventually(s, testkit.Ready())
	k.Eventually(named(&corev1.Pod{}, "tolerant"), testkit.Match("lengthened", func(pod *corev1.Pod) bool {
		return len(pod.Spec.Tolerations) > 1
	}))
	requireIdle(t, k, running, &passes, 10)

	// Drift is still detected.
	mustPatch(t, k, c, types.MergePatchType, `{"data":{"text":"mirror/changed"}}`)
	k.Eventually(c, text("mirror/hello"))
	requireIdle(t, k, running, &passes, 10)

	running.Stop()
	passes.Store(0)
	running = start(k, op)
	k.Wait("passes were made", func(context.Context) error { return atLeast(&passes, 10) })
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests after the restart: %v", got)
	}
}
