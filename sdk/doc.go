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
//	func main() { sdk.Main(Operator) }
//
// The function only records. After it returns nil, the engine creates or updates the children with server-side apply,
// computes the conditions, stores the status in one request and prunes the children that were not applied. The process can
// stop at any point: the next reconcile starts again from the observed state. Drift of an applied field is always detected,
// also right after a restart.
//
// # Contents
//
//   - [Operator], [Pass], [Apply] and its options: the parts of an operator.
//   - [Wait], [Invalid]: the errors that postpone a reconcile or reject a spec. Any other error is retried with backoff.
//   - [Ref]: an object that the custom resource refers to, watched while the reference exists.
//   - [Observed]: the objects that children create, such as the pods of a Deployment. [Pass.Report]: the result of each
//     child.
//   - [Installed]: whether the API server knows an optional owned kind.
//   - [Dry]: the plan of a reconcile as a value, without a cluster. The flag --dry-run of a program prints it for each
//     object.
//   - [Main]: a program with flags, environment, probes, metrics and leader election. [Operator.SetupWithManager]: the
//
// same operator in an existing manager. [Program]: a program with additional flags. [Custom]: a controller of another shape.
//   - Package apply: one object to a desired state, with any controller-runtime client.
//   - Package conditions: the conditions of a status, with any reconciler.
//   - Package finalizer: adding and removing one finalizer without losing those of other controllers.
//
// # Limits
//
// There are no webhooks, no code generation and no scheme registry here: controller-runtime and controller-gen do these
// well. An operator reaches systems outside the cluster with its own code, in Finalize or in a runnable of the manager.
package sdk
