package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// gateInterval is the polling interval for the admission policy. It takes effect after some tenths of a second.
const gateInterval = 20 * time.Millisecond

// A readinessGatePolicy adds a readiness gate to each new pod of some images, so that it is not Ready before its process
// is. Without it, a simulated pod would be Ready before the sandbox sees it.
type readinessGatePolicy struct {
	client client.Client
	name   string
	images []string // names without registry and tag
}

// install installs the policy and returns when it applies to new pods.
func (g *readinessGatePolicy) install(ctx context.Context) error {
	g.name = "testkit-pods-" + strings.ToLower(rand.Text())
	for _, object := range g.objects() {
		if err := g.client.Create(ctx, object); err != nil {
			return fmt.Errorf("holding pods back until their processes are ready: %w", err)
		}
	}
	for {
		gated, err := g.works(ctx)
		if gated {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until pods are held back for their processes: %w", errors.Join(ctx.Err(), err))
		case <-time.After(gateInterval):
		}
	}
}

// works reports whether the API server adds the gate to a pod, by a dry run.
func (g *readinessGatePolicy) works(ctx context.Context) (bool, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: g.name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: g.images[len(g.images)-1]}}},
	}
	if err := g.client.Create(ctx, pod, client.DryRunAll); err != nil {
		return false, fmt.Errorf("trying to create a pod: %w", err)
	}
	return isGated(pod), nil
}

func isGated(pod *corev1.Pod) bool {
	for _, g := range pod.Spec.ReadinessGates {
		if g.ConditionType == kubelet.ProcessGate {
			return true
		}
	}
	return false
}

// remove removes the policy.
func (g *readinessGatePolicy) remove(ctx context.Context) error {
	var errs []error
	for _, object := range g.objects() {
		if err := client.IgnoreNotFound(g.client.Delete(ctx, object)); err != nil {
			errs = append(errs, fmt.Errorf("removing what holds pods back until their processes are ready: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (g *readinessGatePolicy) objects() []client.Object {
	quoted := make([]string, len(g.images))
	for i, image := range g.images {
		quoted[i] = regexp.QuoteMeta(image)
	}
	of := fmt.Sprintf("object.spec.restartPolicy == 'Always' && object.spec.containers.exists(c, c.image.matches(r'%s'))",
		`(^|/)(`+strings.Join(quoted, "|")+`)(:[^/]*|@[^/]*)?$`)
	value := fmt.Sprintf("Object.spec.readinessGates{conditionType: '%s'}", kubelet.ProcessGate)
	patch := fmt.Sprintf(`has(object.spec.readinessGates) ?
		(object.spec.readinessGates.exists(g, g.conditionType == '%s') ? [] :
			[JSONPatch{op: 'add', path: '/spec/readinessGates/-', value: %s}]) :
		[JSONPatch{op: 'add', path: '/spec/readinessGates', value: [%s]}]`, kubelet.ProcessGate, value, value)
	newPods := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
		},
	}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	policy.Spec = admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newPods}},
		},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "image", Expression: of}},
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch,
			JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch},
		}},
		FailurePolicy:      new(admissionregistrationv1.Ignore),
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	binding.Spec.PolicyName = g.name
	return []client.Object{policy, binding}
}
