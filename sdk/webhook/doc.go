// Package webhook adds admission and conversion webhooks to an [sdk.Operator].
//
// An [Operator] is the operator and the functions of its webhooks. It is a value, too, and runs where the operator runs: in
// a program, in an existing manager and in tests.
//
//	func main() {
//		program.Main(&webhook.Operator[*v1.Team]{Operator: team.Operator, Validate: validate, Default: setDefaults})
//	}
//
//	func validate(_ context.Context, old, team *v1.Team) (admission.Warnings, error) {
//		if old != nil && old.Spec.Region != team.Spec.Region {
//			return nil, field.Forbidden(field.NewPath("spec", "region"), "a team cannot move")
//		}
//		return nil, nil
//	}
//
// The HTTP server and the protocol are those of controller-runtime. All replicas serve webhooks, whether or not they are the
// leader. A dry run serves none.
//
// # Certificates
//
// A program gets its certificate in one of two ways, and logs which:
//
//   - It renews the certificate itself. The certificate authority is in a Secret that all replicas share, and is written
//     into the webhook configurations and CustomResourceDefinitions. This is the default in a cluster.
//   - It reads files, for example of cert-manager or OLM, and reads them again when they change: see the flag
//     --webhook-cert-dir.
//
// In an existing manager, the manager's webhook server and its certificate are used. Package webhook then registers handlers
// only.
package webhook
