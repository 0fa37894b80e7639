// Package sdk turns a description of what should exist for a custom resource into an operator.
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
// The function only records. When it has returned nil, the engine brings the children about with server-side apply,
// computes the conditions, stores the status in one request and deletes what was not applied. Whatever it does can be
// interrupted anywhere: the next pass starts again from what is observed. A pass over an object that is as it should be
// makes no request at all, also right after a restart, and yet notices every change of a field that was applied.
//
// # What is where
//
//   - [Operator], [Pass], [Apply] and its options: what an operator is made of.
//   - [Wait], [Invalid]: how a pass says that it cannot go on. Any other error is retried with backoff.
//   - [Ref]: an object that the custom resource refers to, watched for as long as it is referred to.
//   - [Observed]: what children make, such as the pods of a Deployment. [Pass.Stall]: what became of the children.
//   - [Installed]: whether the cluster has an owned kind that it need not have.
//   - [Dry]: the plan of a pass as a value, without a cluster. A program's flag --dry-run prints it for each object.
//   - [Main]: a program with flags, environment, probes, metrics and leader election; [Operator.SetupWithManager]: the
//     same operator in a manager of yours. [Program]: with flags of your own. [Custom]: for a controller of another shape.
//   - Package apply: one object to a desired state, with any controller-runtime client.
//   - Package conditions: the conditions of a status, with any reconciler.
//   - Package finalizer: adding and removing one finalizer without losing another controller's.
//
// # What it is not for
//
// There are no webhooks, no code generation and no scheme registry here: controller-runtime and controller-gen do these
// well. Systems outside the cluster are reached by your own code, in Finalize or in a runnable of the manager.
package sdk
