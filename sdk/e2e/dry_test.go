package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// dryOperator has each feature that a plan shows: a reference, a child that waits for another, a create-only child, a
// cluster-scoped child, and a finalizer.
func dryOperator() *siteOperator {
	op := operator(func(_ context.Context, p *pass) error {
		password, err := sdk.Ref(p, named(&corev1.Secret{}, "password"))
		if err != nil {
			return err
		}
		web := sdk.Apply(p, deployment(p.Object))
		p.Object.Status.Seen = int64(web.Live().Status.ReadyReplicas)
		sdk.Apply(p, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "copy"}, StringData: map[string]string{"text": string(password.Data["text"])},
		}, sdk.CreateOnly())
		sdk.Apply(p, named(&corev1.Namespace{}, "of-"+p.Object.Name))
		sdk.Apply(p, configMap(p.Object, "address"), sdk.After(web))
		return nil
	})
	op.Owns = []client.Object{&appsv1.Deployment{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Namespace{}}
	return op
}

// A plan shows, without a cluster, the actions of one reconcile on the given objects.
func TestDry(t *testing.T) {
	t.Parallel()
	s := newSite("a")
	s.Namespace = "shop"
	available := deployment(s)
	available.Generation = 1
	available.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	outdated := deployment(s)
	outdated.Spec.Template.Spec.Containers[0].Image = "web:0"
	foreign := configMap(s, "address")
	foreign.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "b", UID: "b", Controller: new(true)}}
	password, copied := secret("password", "p"), secret("copy", "another")
	home := named(&corev1.Namespace{}, "of-a")
	guarded := newSite("a")
	guarded.Namespace = "shop"
	guarded.Finalizers = []string{ourFinalizer}
	for name, c := range map[string]struct {
		live []client.Object
		want string
	}{
		"without the reference": {nil, `
Site shop/a
  nothing would be done
  Ready=False (ReferenceNotFound): Secret password does not exist in namespace shop
`},
		"no object exists": {[]client.Object{password}, `
Site shop/a
  add the finalizer to Site shop/a
  create Deployment a
      metadata.labels.app.kubernetes.io/managed-by: "sdk-e2e"
      spec.selector.matchLabels.site: "a"
      spec.template.metadata.labels.site: "a"
      spec.template.spec.containers[name="web"].image: "web:1"
      spec.template.spec.containers[name="web"].name: "web"
  create Secret copy
      data.text: (not shown)
      metadata.labels.app.kubernetes.io/managed-by: "sdk-e2e"
  create Namespace of-a
      metadata.annotations.homeostat.dev/owner: "shop/a"
      metadata.labels.app.kubernetes.io/managed-by: "sdk-e2e"
      metadata.labels.homeostat.dev/owner-uid: "dry-run"
  hold back ConfigMap address: it waits for Deployment a
  Ready=False (Progressing): ConfigMap address waits for Deployment a; Deployment a: X
`},
		"a child differs, and one is not asked for": {
			[]client.Object{password, copied, outdated, home, configMap(s, "old")}, `
Site shop/a
  update Deployment a
      spec.template.spec.containers[name="web"].image: "web:0" -> "web:1"
  hold back ConfigMap address: it waits for Deployment a
  delete ConfigMap old
  Ready=False (Progressing): ConfigMap address waits for Deployment a; Deployment a: X
`,
		},
		"another is in the way": {[]client.Object{password, copied, available, home, foreign}, `
Site shop/a
  hold back ConfigMap address: ConfigMap shop/address exists and belongs to Other b: delete it, or use another name
  Ready=False (ResourceConflict): ConfigMap shop/address exists and belongs to Other b: delete it, or use another name
`},
		"all is well": {[]client.Object{password, copied, available, home, configMap(s, "address")}, `
Site shop/a
  nothing would be done
  Ready=True (Succeeded)
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := guarded
			if len(c.live) == 1 { // and no child yet
				o = s
			}
			got := sdk.Dry(t.Context(), dryOperator(), o, c.live...).String()
			if before, after, ok := strings.Cut(got, "Deployment a: "); ok && strings.Contains(c.want, "Deployment a: X") {
				_, after, _ = strings.Cut(after, "\n") // the message about a Deployment comes from kstatus
				got = before + "Deployment a: X\n" + after
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An error of an operator, in its definition or its result, is the plan's error and is printed.
func TestDryFails(t *testing.T) {
	t.Parallel()
	s := newSite("a")
	broken := errors.New("broken")
	bad := func(client.Object) (bool, string) { panic("bad ReadyWhen") }
	for name, c := range map[string]struct {
		reconcile func(context.Context, *pass) error
		live      []client.Object
		want      string
	}{
		"an error": {
			func(context.Context, *pass) error { return broken }, nil, `
  the pass would fail: broken
  Ready=False (Retrying): broken
`,
		},
		"a panic": {
			func(context.Context, *pass) error { panic("bad Reconcile") }, nil, `
  the pass would fail: panic: bad Reconcile
  Ready=False (Panic): panic: bad Reconcile
`,
		},
		"a panic about an existing object": {
			func(_ context.Context, p *pass) error {
				sdk.Apply(p, configMap(p.Object, "a"), sdk.ReadyWhen(bad))
				return nil
			}, []client.Object{configMap(s, "a")}, `
  the pass would fail: panic: bad ReadyWhen
  Ready=False (Panic): panic: bad ReadyWhen
`,
		},
	} {
		plan := sdk.Dry(t.Context(), operator(c.reconcile), s, c.live...)
		if plan.Err == nil || !plan.Empty() {
			t.Errorf("%s: error %v, steps %v", name, plan.Err, plan.Actions)
		}
		if diff := cmp.Diff("Site a"+c.want, plan.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	guarded := newSite("a")
	guarded.Finalizers = []string{ourFinalizer}
	nothing := operator(func(context.Context, *pass) error { return nil })
	if got := sdk.Dry(t.Context(), nothing, guarded).String(); !strings.Contains(got, "  remove the finalizer from Site a\n") {
		t.Errorf("a finalizer that is needed no longer: %s", got)
	}
	if plan := sdk.Dry(t.Context(), &siteOperator{}, s); plan.Err == nil || !plan.Empty() {
		t.Errorf("an operator without a name: %v", plan)
	}
	if len(s.Status.Conditions) > 0 {
		t.Error("the caller's object was changed")
	}
}

// With --dry-run a program prints its plan and writes nothing.
func TestDryRunOfAProgram(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := newSite("a")
	k.Apply(s)
	k.Apply(secret("foreign", "x"))
	dryRun := func() string {
		p := runOn(t, k, "--dry-run")
		if code := p.exit(); code != 0 {
			t.Fatalf("exit code %d: %s", code, p.errors())
		}
		return strings.ReplaceAll(strings.Join(p.lines, "\n"), k.Namespace, "NS")
	}
	compare := func(when, want string) {
		t.Helper()
		_, got, _ := strings.Cut(dryRun(), "\n") // the program's operator prints its reconciles
		if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	compare("no object exists", `
Site NS/a
  create ConfigMap a
      data.text: "hello"
      metadata.labels.app.kubernetes.io/managed-by: "sdk-e2e"
      metadata.labels.color: "blue"
  Ready=True (Succeeded)
sdk-e2e: something would be done about 1 of 1 objects`)
	if err := k.Client.Get(k.Context(), client.ObjectKey{Namespace: k.Namespace, Name: "a"}, &corev1.ConfigMap{}); err == nil {
		t.Error("the dry run made something")
	}
	k.Get(s)
	if len(s.Status.Conditions) > 0 {
		t.Error("the dry run wrote the status")
	}

	op := operator(oneChild)
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	running := start(k, op)
	converged(k, running, s)
	running.Stop()
	compare("all is well", `
Site NS/a
  nothing would be done
  Ready=True (Succeeded)
sdk-e2e: something would be done about 0 of 1 objects`)
	mustPatch(t, k, named(&corev1.ConfigMap{}, "a"), types.MergePatchType, `{"data":{"text":"changed by hand"}}`)
	k.Update(s, func() { s.Spec.Text = "new" })
	compare("a child differs", `
Site NS/a
  update ConfigMap a
      data.text: "changed by hand" -> "new"
  Ready=True (Succeeded)
sdk-e2e: something would be done about 1 of 1 objects`)
	k.Update(s, func() { s.Spec.Text = "panic" })
	p := runOn(t, k, "--dry-run")
	if code := p.exit(); code != 1 || !p.printed("  the pass would fail: panic: the text says so") {
		t.Errorf("exit code %d, output %v", code, p.lines)
	}
	if got := p.errors(); !strings.Contains(got, "operator sdk-e2e: 1 of 1 objects cannot be planned: see above") {
		t.Error(got)
	}
}
