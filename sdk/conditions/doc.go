// Package conditions keeps the status of a custom resource consistent and readable by common tools.
//
// It writes the three conditions that kstatus, kubectl wait, Argo CD and Flux understand, so that they never contradict each
// other: [Ready] is the summary, [Reconciling] means work in progress, [Stalled] means that a change of the spec or of
// another object is needed. The transition time of a condition changes only with its status, every condition has the
// generation that it was computed from, and messages are bounded, so that writing an unchanged state is a no-op.
//
// A kind embeds [Status] and implements [Object] with one method:
//
//	type DatabaseStatus struct {
//		conditions.Status `json:",inline"`
//		Endpoint string `json:"endpoint,omitempty"`
//	}
//
//	func (d *Database) CommonStatus() *conditions.Status { return &d.Status.Status }
//
// The package depends on apimachinery alone and changes objects in memory only: it is usable from any reconciler. It does
// not send a status to the API server.
package conditions
