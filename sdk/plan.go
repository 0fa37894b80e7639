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

// Plan is what a pass over one object would do. Equal plans print alike, so that they can be compared, kept in a file and
// read by people. See [Dry].
type Plan[T Object] struct {
	// Object is the object with the status that the pass would store. Its children count as if each write had been
	// answered with what was sent.
	Object T
	// Steps are the writes of children in their order, and those that are not made yet.
	Steps []Step
	// Err is what Reconcile returned, or what keeps a child from being written. Nil if there is nothing of the kind.
	Err error

	name string
}

// Step is what a plan would do about one object.
type Step struct {
	// Verb is "create", "update", "release" (let a tracked child go), "delete", "hold back" (of which Why tells), or, for
	// the object itself, "add the finalizer to", "remove the finalizer from" and "clean up".
	Verb string
	// Object names it as "Kind name", or "Kind namespace/name" if it is the parent or in another namespace.
	Object string
	// Fields are the lines of [apply.Intent.Diff].
	Fields []string
	// Why says what a step that is held back waits for.
	Why string
}

// String names the step in one line, without its fields.
func (s Step) String() string {
	if s.Why != "" {
		return s.Verb + " " + s.Object + ": " + s.Why
	}
	return s.Verb + " " + s.Object
}

// Empty reports whether nothing would be written, the status apart.
func (p *Plan[T]) Empty() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Verb != holdBack })
}

// String prints the plan: the object, a line for each step with its fields below, and the summary of the status.
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

// failed reports whether something went wrong that neither waiting nor editing the object is the answer to.
func (p *Plan[T]) failed() bool {
	class := classify(p.Err)
	return class != classNone && class < classWait || class == classPanic
}

const holdBack = "hold back"

// Dry plans a pass over the object without a cluster: nothing is read, and nothing is written. Live are the objects that
// exist: what o refers to with [Ref], its children, which are all other objects of an owned kind that nobody else controls,
// and what may be in the way. An update is planned where a value differs from what the operator applies. Nothing is known
// here of defaults, of what the operator applied before, and of the scope of kinds that client-go does not have: they are
// taken to be in a namespace.
func Dry[T Object](ctx context.Context, op *Operator[T], o T, live ...client.Object) *Plan[T] {
	o = object.Copy(o)
	if o.GetUID() == "" { // by which children are known
		o.SetUID("dry-run")
	}
	k, err := op.offline()
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
			seen.put(gvk, child, k.claim(child, o), o.GetUID())
		}
	}
	d := drafter[T]{op: op, kinds: k, read: func(id childID, _ client.Object) (client.Object, error) {
		delete(seen.children, id) // what is referred to is no child
		return all[id], nil
	}}
	d.list = func(t target, like client.Object) ([]client.Object, error) {
		found, err := t.among(all, like)
		for _, o := range found {
			delete(seen.children, childID{t.gvk, client.ObjectKeyFromObject(o)})
		}
		return found, err
	}
	return d.plan(ctx, o, seen)
}

// among returns those objects that the target names, in the form of like.
func (t target) among(all map[childID]client.Object, like client.Object) ([]client.Object, error) {
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

// claim makes an object look like a child of o.
func (k *kinds) claim(x, o client.Object) parent {
	labels, annotations := maps.Clone(x.GetLabels()), maps.Clone(x.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedByLabel] = k.operator
	of := parent{uid: o.GetUID(), remote: o.GetNamespace() != "" && x.GetNamespace() != o.GetNamespace()}
	if of.remote {
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

// offline is what can be known of the operator's kinds without an API server.
func (op *Operator[T]) offline() (*kinds, error) {
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

// clusterScoped are those kinds of client-go in no namespace that an operator may have a reason to apply.
//
//nolint:gochecknoglobals // it is constant.
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

// drafter plans passes.
type drafter[T Object] struct {
	op         *Operator[T]
	kinds      *kinds
	owner      *apply.Manager // nil if values alone tell what is converged
	namespaces []string
	// read returns an object that is not a child, or nil if it does not exist. Nil if nothing can be read.
	read func(id childID, like client.Object) (client.Object, error)
	// list returns what a target without a name names.
	list func(t target, like client.Object) ([]client.Object, error)
}

// plan makes the pass over o that sees these children, and carries out nothing.
func (d *drafter[T]) plan(ctx context.Context, o T, seen *snapshot) *Plan[T] {
	p := &Pass[T]{Object: object.Copy(o), Log: logr.FromContextOrDiscard(ctx), Now: time.Now(), record: record{
		seen: seen, troubles: patience{}, known: map[types.UID]readiness{}, excerpts: &excerpts{},
		refs: referrer{key: client.ObjectKeyFromObject(o), lookup: d.find, read: d.full},
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
		switch needed := d.op.needsFinalizer(o) || p.remote(); {
		case needed && !guarded:
			plan.Steps = append(plan.Steps, Step{Verb: "add the finalizer to", Object: plan.name})
		case !needed && guarded:
			plan.Steps = append(plan.Steps, Step{Verb: "remove the finalizer from", Object: plan.name})
		}
		plan.Err = d.children(ctx, p, plan)
	}
	if plan.Err == nil || classify(plan.Err) >= classWait {
		if err := p.tell(ctx); err != nil {
			plan.Err = err
		}
	}
	d.op.summarize(ctx, p, plan.Err, 0)
	plan.Object = p.Object
	return plan
}

// children drafts the steps of the children and pretends that each was carried out. It returns what keeps one from that.
func (d *drafter[T]) children(ctx context.Context, p *Pass[T], plan *Plan[T]) (err error) {
	defer recoverPanic(ctx, &err) // of a ReadyWhen
	var failures []error
	for _, s := range p.plan {
		s.stored = s.live
		if s.err = s.withheld; s.err != nil {
			plan.Steps = append(plan.Steps, Step{Verb: holdBack, Object: s.String(), Why: s.err.Error()})
			continue
		}
		if other := s.blocked(); other != nil {
			s.waits = fmt.Sprintf("%s waits for %s", s, other)
			plan.Steps = append(plan.Steps, Step{Verb: holdBack, Object: s.String(), Why: "it waits for " + other.String()})
			continue
		}
		if step := d.draft(ctx, p, s); step.Verb != "" {
			plan.Steps = append(plan.Steps, step)
		}
		failures = append(failures, s.err)
		s.assess()
	}
	for _, id := range p.seen.unplanned(p.plan) {
		if child := p.seen.children[id]; !child.terminating && !child.kept {
			plan.Steps = append(plan.Steps, Step{Verb: "delete", Object: id.String()})
		}
	}
	return cmp.Or(worst(p.plan), errors.Join(failures...))
}

// draft says what would be done about one child. No verb means nothing.
func (d *drafter[T]) draft(ctx context.Context, p *Pass[T], s *step) Step {
	step := Step{Object: s.String()}
	intent, err := d.kinds.intent(ctx, p.Object, s)
	if err == nil && s.live == nil {
		err = d.obstacle(s, intent)
	}
	if err != nil {
		s.err = err
		step.Verb, step.Why = holdBack, describe(err)
		return step
	}
	if s.terminating {
		step.Verb, step.Why = holdBack, "it is being deleted"
		return step
	}
	if step.Fields, s.err = intent.Diff(s.live, d.op.Name); s.err != nil {
		return step
	}
	finalizer := d.op.finalizerName()
	switch {
	case s.live == nil:
		step.Verb, s.stored = "create", s.desired
	case s.unguarded(finalizer), !s.createOnly && !d.converged(intent, s.live, step.Fields):
		step.Verb = "update"
	case s.releasable(finalizer):
		step.Verb, step.Fields = "release", nil
	}
	return step
}

func (d *drafter[T]) converged(intent *apply.Intent, live client.Object, differences []string) bool {
	if d.owner == nil {
		return len(differences) == 0
	}
	return d.owner.Converged(intent, live)
}

// obstacle returns what keeps a child from being made.
func (d *drafter[T]) obstacle(s *step, intent *apply.Intent) error {
	if err := d.kinds.absent(s.gvk); err != nil || d.read == nil {
		return err
	}
	other, err := d.read(s.id(), s.desired)
	if err != nil || other == nil || s.adoptable(other) {
		return err
	}
	return s.conflict(intent.CheckOwnership(other))
}

func (d *drafter[T]) find(_ types.NamespacedName, t target, like client.Object) ([]client.Object, error) {
	if t.key.Name == "" {
		return d.list(t, like)
	}
	o, err := d.read(t.childID, like)
	if err != nil || o == nil {
		return nil, err
	}
	return []client.Object{o}, nil
}

func (d *drafter[T]) full(_ context.Context, id childID, into client.Object) (bool, error) {
	o, err := d.read(id, into)
	if err != nil || o == nil {
		return false, err
	}
	object.Assign(into, o)
	return true, nil
}
