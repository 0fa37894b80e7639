// Package policy decides when the pod of an ImmortalContainer should exist, and keeps the history of its pods.
//
// It is pure logic: [Next] takes the stored object, the observed pod and the time, updates the status and returns a
// [Decision]. It sends no request. Every way in which a pod can end is therefore one line of a table in a test. Next is
// idempotent: a second call with the same input changes nothing.
//
// Two conditions make the history exact; the caller has to meet them. A pod with [Decision.Counted] false must not
// disappear from the API server; the SDK's HoldUntil ensures that with a finalizer. The status of a reconcile must be
// stored, with optimistic concurrency, before the reconcile deletes a pod.
package policy
