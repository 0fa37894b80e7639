// Package sdk turns a function that describes the desired children of a custom resource into an operator.
//
// An operator is level-based: each reconcile computes the desired state from the observed state, never from events. It is
// idempotent: an object in its desired state causes no request. All writes of children are server-side apply.
//
// An operator is a value:
//
//	var Operator = &sdk.Operator[*v1.Database]{
//		Name:        "database",
//		AddToScheme: v1.AddToScheme,
//		Owns:        []client.Object{&appsv1.StatefulSet{}, &corev1.Service{}},
//		Reconcile:   reconcile,
//	}
//
//	func reconcile(ctx context.Context, p *sdk.Pass[*v1.Database]) error {
//		set := sdk.Apply(p, statefulSet(p.Object), sdk.Unmanaged("spec.replicas"))
//		sdk.Apply(p, service(p.Object), sdk.After(set))
//		p.Object.Status.ReadyReplicas = set.Live().Status.ReadyReplicas
//		return nil
//	}
//
//	func main() { program.Main(Operator) }
//
// The function only records. After it returns nil, the engine creates or updates the children with server-side apply,
// computes the conditions, stores the status in one request and prunes the children that were not applied. The process can
// stop at any point: the next reconcile starts again from the observed state. Drift of an applied field is always detected,
// also right after a restart.
//
// # Declaring children
//
//   - [Operator] defines how objects of one kind are reconciled. [Object] is such an object, [Pass] one reconcile of it.
//   - [Apply] records the desired state of a child and returns a [Child]; [ApplyOption] values configure it.
//   - [After], [AfterCreated] and [HoldBack] postpone a child; any child ([AnyChild]) can be waited for. [CreateOnly] never
//     updates it.
//   - [Unmanaged] leaves a field to other managers, [Zero] enforces a zero value, [RemoveForeign] removes content of others.
//   - [OnImmutable] selects an [ImmutablePolicy] for immutable fields: [Stall], [Recreate] or [RecreateOrphan].
//   - [ReadyWhen] replaces the readiness check.
//
// # Reading
//
//   - [Child.Live] and [Live] return children as they were before the reconcile.
//   - [Observed] returns the objects that children create, such as pods; [ManagedByLabel] and [InstanceLabel] select them.
//   - [Ref] and [Find] read other objects, by name or by labels, and watch them while a reconcile asks for them. The error
//     is [ErrNotSynced] until the watch was read. [SharedWatch] and [KeepAnnotations] limit the watches.
//   - [Installed] reports whether the API server knows an optional owned kind.
//
// # Deletion and ownership
//
//   - [Adopt] and [AdoptIf] take over existing objects. [OnAdopt] marks them, and [Operator.Orphan] hands them back where
//     other children are deleted. [ConflictReason] names the reason of a conflict.
//   - [HoldUntil] adds a tracking finalizer to a child. [Retain] makes a child outlive the object.
//   - [Pass.OrphanChildren] orphans children, [ForceDelete] deletes one without waiting.
//   - [Operator.Finalize] is the clean-up of an object; [ReleaseAnnotation] skips it.
//
// # Errors and conditions
//
//   - [Wait], [WaitFor] and [Invalid] postpone a reconcile or reject a spec. Any other error is retried with backoff.
//     [Reason] returns the reason of such an error.
//   - [Pass.SetCondition], [Pass.SetNotReady] and [Pass.SetSuspended] write conditions. [Pass.OnPlanExecuted] reads the
//     result of each child.
//   - [Pass.Event], [Pass.Warn] and [Pass.OnStatusUpdated] follow a stored status; [Pass.RequeueAfter] is a timer.
//
// # Large content
//
//   - [MetadataOnly] caches only the metadata of an owned kind. [ContentFrom] loads the content of a child when it is sent.
//   - [Derive] caches a value that is computed from the content of an object; [GetLive] reads an object in full.
//   - [ExclusiveMaps] removes entries of other managers, for example from data.
//
// # Running
//
//   - Package program: a program with flags, environment, probes, metrics and leader election.
//   - [Operator.SetupWithManager]: the same operator in an existing manager, with [SetupOption] values such as
//     [InNamespaces] and [Workers].
//   - [Dry] returns the [Plan] of a reconcile without a cluster, as a list of [Action] values. [Operator.PrintPlans] prints
//     the plans for a cluster, as the flag --dry-run of a program does.
//   - Package webhook: validation, defaulting and conversion by webhooks, and their certificates.
//   - [PausedAnnotation] and [DryRunAnnotation] stop the operator for one object.
//
// Packages apply, conditions, finalizer and conversion are usable without this one, from any controller-runtime reconciler.
//
// # Outside of the cluster
//
//   - [External] records a resource of a remote API. Package external describes its kind, and [ExternalKinds] makes the
//     [ExternalKindSet] of an operator. [Operator.Connect] selects the credentials of an object.
//   - [Pass.Dry] is for code that reaches a remote API itself.
//
// # Documents
//
// The folder docs of the repository has a first operator by hand (first-operator.md), what is stored when Reconcile fails
// and what is guaranteed about the finalizer (behavior.md), the verbs that each feature needs (permissions.md), and the
// meaning of each reason of a condition (troubleshooting.md).
//
// # Limits
//
// There is no code generation and no scheme registry here: controller-gen and controller-runtime do these well.
package sdk
