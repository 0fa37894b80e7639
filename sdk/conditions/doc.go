// Package conditions keeps the status of a custom resource truthful and readable by the tools that people already use.
//
// It writes the three conditions that kstatus, kubectl wait, Argo CD and Flux understand, so that they never
// contradict each other: [Ready] is the summary, [Reconciling] says that work goes on, [Stalled] that it cannot go on
// without somebody's help. The transition time of a condition moves only when its status flips, every condition carries
// the generation it was computed from, and messages are bounded, so that writing an unchanged state is a no-op.
//
// A kind takes part by embedding [Status] and implementing [Object] with one method:
//
//	type DatabaseStatus struct {
//		conditions.Status `json:",inline"`
//		Endpoint string `json:"endpoint,omitempty"`
//	}
//
//	func (d *Database) CommonStatus() *conditions.Status { return &d.Status.Status }
//
// The package depends on apimachinery alone and changes objects in memory only: it is usable from any reconciler, and
// it is not for sending a status to the API server.
package conditions
