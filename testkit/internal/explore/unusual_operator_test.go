package explore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// A correct operator may do things that look odd, and none of them is held against it. It
//   - keeps writing a Lease;
//   - lists a kind, which it does not watch, as long as there is a custom resource;
//   - lets the server make up the name of one child, and puts the custom resource's UID in that of another;
//   - makes up another name by the clock;
//   - makes up a password once and never touches the Secret again;
//   - says Ready without waiting for a StatefulSet of which nobody reports how it fares;
//   - needs, to clean up, a Secret that was there before it started, unless everything is being deleted.
func TestPeculiarOperator(t *testing.T) {
	t.Parallel()
	o := exploring(false)
	if testing.Short() {
		drift := map[string]bool{ // each is one of those that such an operator makes difficult
			"drift-deleted/configmaps/edge-~1": true, "drift-deleted/configmaps/since-~1": true,
			"drift-edited/statefulsets.apps/edge/spec.template": true,
			// Its updates only repeat what the API server had set: nobody is to change that and wait for it to come back.
			"drift-edited/statefulsets.apps/edge/spec.revisionHistoryLimit": true,
			"namespace-deleted@change":                                      true,
			// While nobody cleans up, the custom resource cannot be made again.
			"down@delete+create-again":                   true,
			"crash-after/create-secrets-edge-password#1": true,
		}
		o.Only = func(plan string) bool { return drift[plan] }
	}
	r := run(t, o)
	if got := found(r); len(got) > 0 {
		t.Errorf("the operator is correct, and this was found: %v\n%s", got, text(t, r))
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "secrets/edge-password.data.password") {
		t.Errorf("the report says nothing of the password, which it does not compare: %s", notes)
	}
	tried := 0
	for _, run := range r.Runs {
		if run.Why == "" {
			tried++
		} else {
			t.Logf("%s was not tried: %s", run.Name, run.Why)
		}
	}
	if tried < 6 {
		t.Errorf("%d runs, want three without a fault and three with one", tried)
	}
}

// Beside what is correct, the same operator with six bugs, and the plans that are made for them.
func TestPeculiarOperatorWithBugs(t *testing.T) {
	t.Parallel()
	bugs := map[string]string{
		"crash-after/create-statefulsets-edge#1: end-state":            "the password is made up again after a crash",
		"drift-edited/statefulsets.apps/edge/spec.template: end-state": "a field of a child is only set when it is made",
		"error-500/update-proxies-edge#2: residue":                     "an error at the end of the clean-up is forgotten",
		"namespace-deleted@create: residue":                            "what is missing is made before it is deleted",
		"crash-deleted/patch-secrets-credentials#1: end-state":         "the finalizer comes after what it is for",
		"error-500/get-secrets-edge-password#1: panic":                 "an error is not looked at",
	}
	o := exploring(true)
	o.Steps = o.Steps[:2] // so that the custom resource is only deleted when the scenario is over
	o.Only = func(plan string) bool {
		return slices.ContainsFunc(slices.Sorted(maps.Keys(bugs)), func(w string) bool { return strings.HasPrefix(w, plan+":") })
	}
	r := run(t, o)
	got := found(r)
	for want, bug := range bugs {
		if !slices.Contains(got, want) {
			t.Errorf("%s: found %v, want %s", bug, got, want)
		}
	}
	if len(got) != len(bugs) {
		t.Errorf("found %v, want %d\n%s", got, len(bugs), text(t, r))
	}
}

// What an operator leaves to others nobody changes by hand, what it cannot make again nobody deletes, and nothing else is
// spared.
func TestWhatIsLeftToOthers(t *testing.T) {
	t.Parallel()
	const left, other = "drift-edited/statefulsets.apps/edge/spec.template", "drift-edited/configmaps/edge-~1"
	const unique = "drift-deleted/statefulsets.apps/"
	o := exploring(true)
	o.Steps = o.Steps[:2]
	o.Leaves = []string{"statefulsets.apps/edge.spec.template", "configmaps/ed"}
	o.Unique = []string{"statefulsets.apps/edge"}
	o.Only = func(plan string) bool { return plan == left || plan == other || strings.HasPrefix(plan, unique) }
	r := run(t, o)
	if got := found(r); len(got) > 0 {
		t.Errorf("found %v", got)
	}
	tried := map[string]string{}
	for _, run := range r.Runs {
		tried[run.Name] = run.Why
		if strings.HasPrefix(run.Name, unique) && run.Why == "" {
			t.Errorf("%s was tried", run.Name)
		}
	}
	if why, ok := tried[left]; ok && why == "" {
		t.Errorf("%s was tried", left)
	}
	if why, ok := tried[other]; !ok || why != "" {
		t.Errorf("%s was not tried: %s", other, why)
	}
}

// exploring explores the operator with bugs, or without.
func exploring(bugs bool) explore.Options {
	settings := func(image string) func(*testkit.K) {
		return func(k *testkit.K) {
			k.Apply(&v1.Proxy{
				ObjectMeta: metav1.ObjectMeta{Name: "edge"},
				Spec:       v1.ProxySpec{Settings: map[string]string{"image": image, "level": strconv.Itoa(len(image))}},
			})
		}
	}
	patience := testkit.DefaultTimeout
	if bugs {
		patience /= 3 // two of them are only found when it is over
	}
	return explore.Options{
		Name: "peculiar", Patience: patience, Seed: 1,
		Subject: explore.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupPeculiar(k.Namespace, bugs), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Setup: func(k *testkit.K) {
			k.Apply(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "credentials"}, Data: map[string][]byte{"token": []byte("t")},
			})
		},
		Steps: []explore.Step{
			{Name: "create", Do: settings("nginx")},
			{Name: "change", Do: settings("apache")},
			{Name: "delete", Do: func(k *testkit.K) { k.Delete(&v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}) }},
			{Name: "create again", Do: settings("caddy")},
			{Name: "delete again", Do: func(k *testkit.K) { k.Delete(&v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}) }},
		},
	}
}

// peculiar is the operator.
type peculiar struct {
	client.Client

	live client.Client // past the cache
	bugs bool
}

func setupPeculiar(namespace string, bugs bool) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		config := rest.CopyConfig(mgr.GetConfig())
		config.QPS = -1 // what a reconcile reads takes a second with client-go's default
		live, err := client.New(config, client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return err
		}
		p := &peculiar{mgr.GetClient(), live, bugs}
		err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return p.beat(ctx, namespace) }))
		if err != nil {
			return err
		}
		return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).
			Owns(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Owns(&appsv1.StatefulSet{}).Complete(p)
	}
}

// beat says that the operator is there.
func (p *peculiar) beat(ctx context.Context, namespace string) error {
	for {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "heartbeat", Namespace: namespace}}
		_, _ = controllerutil.CreateOrUpdate(ctx, p.live, lease, func() error {
			lease.Spec.RenewTime = new(metav1.NowMicro())
			return nil
		})
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

const peculiarFinalizer = "peculiar.homeostat.dev/logout"

func (p *peculiar) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	proxy := &v1.Proxy{}
	if err := p.live.Get(ctx, req.NamespacedName, proxy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := p.live.List(ctx, &corev1.ServiceAccountList{}, client.InNamespace(req.Namespace)); err != nil {
		return reconcile.Result{}, err
	}
	if !proxy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, p.cleanUp(ctx, proxy)
	}
	if p.bugs {
		if err := p.use(ctx, proxy, `"yes"`); err != nil {
			return reconcile.Result{}, err
		}
	}
	if controllerutil.AddFinalizer(proxy, peculiarFinalizer) {
		if err := p.live.Update(ctx, proxy); err != nil {
			return reconcile.Result{}, err
		}
	}
	for _, child := range []func(context.Context, *v1.Proxy) error{p.generated, p.named, p.dated, p.password, p.workload} {
		if err := child(ctx, proxy); err != nil {
			return reconcile.Result{}, err
		}
	}
	proxy.Status.ObservedGeneration = proxy.Generation
	if !meta.SetStatusCondition(&proxy.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: proxy.Generation,
	}) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, p.live.Status().Update(ctx, proxy)
}

func (p *peculiar) cleanUp(ctx context.Context, proxy *v1.Proxy) error {
	if p.bugs {
		if err := p.named(ctx, proxy); err != nil {
			return err
		}
		if err := p.use(ctx, proxy, "null"); err != nil {
			return err
		}
	}
	if err := p.logOut(ctx, proxy); err != nil {
		return fmt.Errorf("logging out: %w", err)
	}
	if !controllerutil.RemoveFinalizer(proxy, peculiarFinalizer) {
		return nil
	}
	err := p.live.Update(ctx, proxy)
	if p.bugs {
		err = nil
	}
	return client.IgnoreNotFound(err)
}

// logOut needs the credentials, unless they are gone together with what they were for.
func (p *peculiar) logOut(ctx context.Context, proxy *v1.Proxy) error {
	err := p.live.Get(ctx, client.ObjectKey{Namespace: proxy.Namespace, Name: "credentials"}, &corev1.Secret{})
	if !apierrors.IsNotFound(err) || p.bugs {
		return err
	}
	key := client.ObjectKey{Namespace: proxy.Namespace, Name: proxy.Name + "-password"}
	if gone := p.live.Get(ctx, key, &corev1.Secret{}); apierrors.IsNotFound(gone) {
		return nil
	}
	return err
}

// use notes at the credentials that they are in use.
func (p *peculiar) use(ctx context.Context, proxy *v1.Proxy, value string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: "credentials"}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"peculiar.homeostat.dev/used-by-%s":%s}}}`, proxy.Name, value)
	return p.live.Patch(ctx, secret, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// put makes a child what set makes of it.
func (p *peculiar) put(ctx context.Context, proxy *v1.Proxy, child client.Object, set func()) error {
	child.SetNamespace(proxy.Namespace)
	_, err := controllerutil.CreateOrUpdate(ctx, p.live, child, func() error {
		set()
		return controllerutil.SetControllerReference(proxy, child, p.Scheme())
	})
	return err
}

// generated keeps one child whose name the server makes up.
func (p *peculiar) generated(ctx context.Context, proxy *v1.Proxy) error {
	var all corev1.ConfigMapList
	err := p.live.List(ctx, &all, client.InNamespace(proxy.Namespace), client.MatchingLabels{"proxy": proxy.Name})
	if err != nil {
		return err
	}
	child := &corev1.ConfigMap{}
	for _, one := range all.Items {
		if metav1.IsControlledBy(&one, proxy) && one.DeletionTimestamp.IsZero() {
			child = &one
		}
	}
	set := func() {
		child.Labels, child.Data = map[string]string{"proxy": proxy.Name}, map[string]string{"image": proxy.Spec.Settings["image"]}
	}
	if child.Name != "" {
		return p.put(ctx, proxy, child, set)
	}
	set()
	child.Namespace, child.GenerateName = proxy.Namespace, proxy.Name+"-"
	if err := controllerutil.SetControllerReference(proxy, child, p.Scheme()); err != nil {
		return err
	}
	return p.live.Create(ctx, child)
}

// named keeps one child with a UID in its name.
func (p *peculiar) named(ctx context.Context, proxy *v1.Proxy) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg-" + string(proxy.UID)[:8]}}
	return p.put(ctx, proxy, child, func() { child.Data = proxy.Spec.Settings })
}

// dated keeps one child with the time in its name.
func (p *peculiar) dated(ctx context.Context, proxy *v1.Proxy) error {
	var all corev1.ConfigMapList
	err := p.live.List(ctx, &all, client.InNamespace(proxy.Namespace), client.MatchingLabels{"since": proxy.Name})
	if err != nil {
		return err
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("since-%d", time.Now().UnixNano())}}
	for _, one := range all.Items {
		if metav1.IsControlledBy(&one, proxy) && one.DeletionTimestamp.IsZero() {
			child = &one
		}
	}
	return p.put(ctx, proxy, child, func() {
		child.Labels, child.Data = map[string]string{"since": proxy.Name}, map[string]string{"level": proxy.Spec.Settings["level"]}
	})
}

// password makes something up, once.
func (p *peculiar) password(ctx context.Context, proxy *v1.Proxy) error {
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name + "-password"}}
	err := p.live.Get(ctx, client.ObjectKeyFromObject(child), child)
	switch {
	case err != nil && !apierrors.IsNotFound(err) && p.bugs:
		panic("nothing was read")
	case err == nil && p.bugs && len(proxy.Status.Conditions) == 0: // it cannot be the one that was announced
		child.Data["password"] = []byte(rand.Text())
		return p.live.Update(ctx, child)
	case !apierrors.IsNotFound(err):
		return err
	}
	child.Data = map[string][]byte{"password": []byte(rand.Text()), "user": []byte("admin")}
	if err := controllerutil.SetControllerReference(proxy, child, p.Scheme()); err != nil {
		return err
	}
	return p.live.Create(ctx, child)
}

// workload keeps a StatefulSet, of which nobody says how it fares without controllers.
func (p *peculiar) workload(ctx context.Context, proxy *v1.Proxy) error {
	child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: proxy.Name}}
	labels := map[string]string{"proxy": proxy.Name}
	return p.put(ctx, proxy, child, func() {
		child.Spec.Replicas, child.Spec.Selector = new(int32(2)), &metav1.LabelSelector{MatchLabels: labels}
		child.Spec.Template.Labels = labels
		if len(child.Spec.Template.Spec.Containers) == 0 {
			child.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy"}}
		}
		if !p.bugs || child.ResourceVersion == "" {
			child.Spec.Template.Spec.Containers[0].Image = proxy.Spec.Settings["image"]
		}
	})
}
