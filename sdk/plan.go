package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Plan is the result of planning a reconcile without carrying it out. Equal plans have equal text, so that they can be
// compared, stored in a file and read. See [Dry].
type Plan[T Object] struct {
	// Object is the object with the status that the reconcile would store. The children count as if the API server had
	// stored each write as it was sent.
	Object T
	// Steps are the writes of children in their order, and the held-back ones.
	Steps []Step
	// Err is the error of Reconcile, or the failure of a child. Nil if there is none.
	Err error

	name string
}

// Step is one planned action on one object.
type Step struct {
	// Verb is "create", "update", "release" (remove the tracking finalizer), "delete", "hold back" (with the reason in Why),
	// or, for the object itself, "add the finalizer to", "remove the finalizer from" and "clean up".
	Verb string
	// Object is "Kind name", or "Kind namespace/name" for the object itself and for a child in another namespace.
	Object string
	// Fields are the lines of [apply.Intent.Diff].
	Fields []string
	// Why is the reason of a held-back step.
	Why string
}

// String returns the step in one line, without its fields.
func (s Step) String() string {
	if s.Why != "" {
		return s.Verb + " " + s.Object + ": " + s.Why
	}
	return s.Verb + " " + s.Object
}

// Empty reports whether the plan has no write except that of the status.
func (p *Plan[T]) Empty() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Verb != holdBack })
}

// String returns the text of the plan: the object, a line for each step with its fields below, and the Ready condition.
func (p *Plan[T]) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.name)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", s)
		for _, field := range s.Fields {
			fmt.Fprintf(&b, "      %s\n", field)
		}
	}
	switch {
	case p.failed():
		fmt.Fprintf(&b, "  the pass would fail: %v\n", p.Err)
	case len(p.Steps) == 0:
		fmt.Fprintln(&b, "  nothing would be done")
	}
	if c := conditions.Get(p.Object, conditions.Ready); c != nil {
		fmt.Fprintf(&b, "  Ready=%s (%s)", c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(&b, ": %s", c.Message)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// failed reports whether the plan has a failure that neither waiting nor an edit of the object can solve.
func (p *Plan[T]) failed() bool {
	class := classify(p.Err)
	return class != classNone && class < classWait || class == classPanic
}

const holdBack = "hold back"

// Dry plans a reconcile of the object without a cluster: it reads nothing and writes nothing. live are the existing objects:
// references of o (see [Ref]), its children and conflicting objects. All other objects of an owned kind without another
// controller count as children. An update is planned if a value differs from the applied one. Defaults, earlier applies and
// the scope of kinds outside of client-go are unknown; such kinds count as namespaced.
func Dry[T Object](ctx context.Context, op *Operator[T], o T, live ...client.Object) *Plan[T] {
	o = object.Copy(o)
	if o.GetUID() == "" { // children are identified by it
		o.SetUID("dry-run")
	}
	k, err := op.offlineKinds()
	if err != nil {
		return &Plan[T]{Object: o, Err: err}
	}
	o.GetObjectKind().SetGroupVersionKind(k.primary)
	seen, all := newSnapshot(k), map[childID]client.Object{}
	for _, x := range live {
		gvk, err := apiutil.GVKForObject(x, k.scheme)
		if err != nil {
			return &Plan[T]{Object: o, Err: fmt.Errorf("finding the kind of %T: %w", x, err)}
		}
		x = object.Copy(x)
		if x.GetNamespace() == "" && k.namespaced(gvk) {
			x.SetNamespace(o.GetNamespace())
		}
		id := childID{gvk, client.ObjectKeyFromObject(x)}
		all[id] = x
		if slices.Contains(k.observed, gvk) {
			seen.observed[gvk] = append(seen.observed[gvk], object.Copy(x))
		}
		if of := metav1.GetControllerOf(x); slices.Contains(k.owned, gvk) && (of == nil || of.UID == o.GetUID()) {
			child := object.Copy(x)
			seen.add(gvk, child, k.assumeOwnership(child, o), o.GetUID())
		}
	}
	d := planner[T]{op: op, kinds: k, read: func(id childID, _ client.Object) (client.Object, error) {
		delete(seen.children, id) // a reference is not a child
		return all[id], nil
	}}
	d.list = func(t target, like client.Object) ([]client.Object, error) {
		found, err := t.selectFrom(all, like)
		for _, o := range found {
			delete(seen.children, childID{t.gvk, client.ObjectKeyFromObject(o)})
		}
		return found, err
	}
	return d.plan(ctx, o, seen)
}

// selectFrom returns the objects that the target selects, in the form of like.
func (t target) selectFrom(all map[childID]client.Object, like client.Object) ([]client.Object, error) {
	selector, err := labels.Parse(t.labels)
	if err != nil {
		return nil, fmt.Errorf("reading the labels of %s: %w", t, err)
	}
	_, partial := like.(*metav1.PartialObjectMetadata)
	var found []client.Object
	for id, o := range all {
		elsewhere := t.key.Namespace != "" && id.key.Namespace != t.key.Namespace
		if id.gvk != t.gvk || elsewhere || !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		if partial {
			o = object.Metadata(o, t.gvk)
		}
		found = append(found, o)
	}
	return found, nil
}

// assumeOwnership changes x so that it counts as a child of o.
func (k *kinds) assumeOwnership(x, o client.Object) parent {
	labels, annotations := maps.Clone(x.GetLabels()), maps.Clone(x.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedByLabel] = k.operator
	of := parent{uid: o.GetUID(), crossNamespace: o.GetNamespace() != "" && x.GetNamespace() != o.GetNamespace()}
	if of.crossNamespace {
		if annotations == nil {
			annotations = map[string]string{}
		}
		labels[apply.OwnerUIDLabel] = string(o.GetUID())
		annotations[apply.OwnerAnnotation] = client.ObjectKeyFromObject(o).String()
	}
	x.SetLabels(labels)
	x.SetAnnotations(annotations)
	return of
}

// offlineKinds returns the operator's kinds as far as they are known without an API server.
func (op *Operator[T]) offlineKinds() (*kinds, error) {
	if err := op.validate(); err != nil {
		return nil, err
	}
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), op.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering the types of operator %s: %w", op.Name, err)
	}
	for gvk := range scheme.AllKnownTypes() {
		if slices.Contains(clusterScoped, gvk.GroupKind().String()) {
			mapper.Add(gvk, meta.RESTScopeRoot)
		}
	}
	return op.kinds(scheme, mapper)
}

// clusterScoped lists the cluster-scoped kinds of client-go that an operator may apply.
var clusterScoped = []string{
	"Namespace", "Node", "PersistentVolume", "ClusterRole.rbac.authorization.k8s.io",
	"ClusterRoleBinding.rbac.authorization.k8s.io", "StorageClass.storage.k8s.io", "CSIDriver.storage.k8s.io",
	"VolumeAttributesClass.storage.k8s.io", "PriorityClass.scheduling.k8s.io", "IngressClass.networking.k8s.io",
	"RuntimeClass.node.k8s.io", "DeviceClass.resource.k8s.io",
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io", "MutatingWebhookConfiguration.admissionregistration.k8s.io",
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
	"CertificateSigningRequest.certificates.k8s.io", "FlowSchema.flowcontrol.apiserver.k8s.io",
	"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
}

// planner plans reconciles.
type planner[T Object] struct {
	op         *Operator[T]
	kinds      *kinds
	owner      *apply.Manager // nil if convergence is judged by values alone
	namespaces []string
	// read returns an object that is not a child, or nil if it does not exist. Nil if no object can be read.
	read func(id childID, like client.Object) (client.Object, error)
	// list returns the objects of a target without a name.
	list func(t target, like client.Object) ([]client.Object, error)
}

// plan plans the reconcile of o with these children, and carries nothing out.
func (d *planner[T]) plan(ctx context.Context, o T, seen *snapshot) *Plan[T] {
	p := &Pass[T]{Object: object.Copy(o), Log: logr.FromContextOrDiscard(ctx), Now: time.Now(), passRecord: passRecord{
		snapshot: seen, retries: retryTracker{}, readinessCache: map[types.UID]readiness{}, derived: &derivedCache{},
		refs: referenceReader{key: client.ObjectKeyFromObject(o), lookup: d.find, read: d.full},
	}}
	p.Namespaces = d.namespaces
	plan := &Plan[T]{Object: o, name: d.kinds.primary.Kind + " " + strings.TrimPrefix(p.refs.key.String(), "/")}
	guarded := controllerutil.ContainsFinalizer(o, d.op.finalizerName())
	switch {
	case d.op.pausedBy(o) != "":
		plan.Steps = []Step{{Verb: holdBack, Object: plan.name, Why: d.op.pausedBy(o)}}
		return plan
	case !o.GetDeletionTimestamp().IsZero():
		if guarded {
			plan.Steps = []Step{{Verb: "clean up", Object: plan.name}}
		}
		return plan
	}
	if plan.Err = compute(ctx, o, p, d.op.Reconcile); plan.Err == nil {
		switch needed := d.op.needsFinalizer(o) || p.hasCrossNamespace(); {
		case needed && !guarded:
			plan.Steps = append(plan.Steps, Step{Verb: "add the finalizer to", Object: plan.name})
		case !needed && guarded:
			plan.Steps = append(plan.Steps, Step{Verb: "remove the finalizer from", Object: plan.name})
		}
		plan.Err = d.children(ctx, p, plan)
	}
	if plan.Err == nil || classify(plan.Err) >= classWait {
		if err := p.runReportFuncs(ctx); err != nil {
			plan.Err = err
		}
	}
	d.op.summarize(ctx, p, plan.Err, 0)
	plan.Object = p.Object
	return plan
}

// children plans the writes of the children as if each was carried out. It returns the failures of children.
func (d *planner[T]) children(ctx context.Context, p *Pass[T], plan *Plan[T]) (err error) {
	defer recoverPanic(ctx, &err) // of a ReadyWhen function
	var failures []error
	for _, s := range p.plan {
		s.stored = s.live
		if s.err = s.heldBack; s.err != nil {
			plan.Steps = append(plan.Steps, Step{Verb: holdBack, Object: s.String(), Why: s.err.Error()})
			continue
		}
		if other := s.blocked(); other != nil {
			s.waits = fmt.Sprintf("%s waits for %s", s, other)
			plan.Steps = append(plan.Steps, Step{Verb: holdBack, Object: s.String(), Why: "it waits for " + other.String()})
			continue
		}
		if step := d.planChild(ctx, p, s); step.Verb != "" {
			plan.Steps = append(plan.Steps, step)
		}
		failures = append(failures, s.err)
		s.assessReadiness()
	}
	for _, id := range p.snapshot.unplanned(p.plan) {
		if child := p.snapshot.children[id]; !child.terminating && !child.retained {
			plan.Steps = append(plan.Steps, Step{Verb: "delete", Object: id.String()})
		}
	}
	return cmp.Or(worstChildError(p.plan), errors.Join(failures...))
}

// planChild returns the action for one child. An empty verb means none.
func (d *planner[T]) planChild(ctx context.Context, p *Pass[T], s *plannedChild) Step {
	step := Step{Object: s.String()}
	intent, err := d.kinds.intent(ctx, p.Object, s)
	if err == nil && s.live == nil {
		err = d.creationBlocked(s, intent)
	}
	if err != nil {
		s.err = err
		step.Verb = holdBack
		step.Why = describe(err)
		return step
	}
	if s.terminating {
		step.Verb = holdBack
		step.Why = "it is being deleted"
		return step
	}
	if step.Fields, s.err = intent.Diff(s.live, d.op.Name); s.err != nil {
		return step
	}
	finalizer := d.op.finalizerName()
	switch {
	case s.live == nil:
		step.Verb = "create"
		s.stored = s.desired
	case s.lacksFinalizer(finalizer), !s.createOnly && !d.converged(intent, s.live, step.Fields):
		step.Verb = "update"
	case s.releasable(finalizer):
		step.Verb = "release"
		step.Fields = nil
	}
	return step
}

func (d *planner[T]) converged(intent *apply.Intent, live client.Object, differences []string) bool {
	if d.owner == nil {
		return len(differences) == 0
	}
	return d.owner.Converged(intent, live)
}

// creationBlocked returns the error that prevents the creation of a child, or nil.
func (d *planner[T]) creationBlocked(s *plannedChild, intent *apply.Intent) error {
	if err := d.kinds.notInstalledError(s.gvk); err != nil || d.read == nil {
		return err
	}
	other, err := d.read(s.id(), s.desired)
	if err != nil || other == nil || s.adoptable(other) {
		return err
	}
	return s.conflict(intent.CheckOwnership(other))
}

func (d *planner[T]) find(_ types.NamespacedName, t target, like client.Object) ([]client.Object, error) {
	if t.key.Name == "" {
		return d.list(t, like)
	}
	o, err := d.read(t.childID, like)
	if err != nil || o == nil {
		return nil, err
	}
	return []client.Object{o}, nil
}

func (d *planner[T]) full(_ context.Context, id childID, into client.Object) (bool, error) {
	o, err := d.read(id, into)
	if err != nil || o == nil {
		return false, err
	}
	object.Assign(into, o)
	return true, nil
}
