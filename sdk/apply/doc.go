// Package apply brings one object to a desired state with server-side apply, and sends nothing if it is there already.
//
// It answers the question that every operator asks thousands of times, "is there anything to do?", without a request
// and without comparing values. The API server records which fields each manager owns; a change of an owned field by
// anybody else takes that ownership away. So an object is converged if and only if it carries the digest of the
// [Intent] that we would send now (annotation [DigestAnnotation]) and our entry in metadata.managedFields still covers
// every field of it. Defaults, quantities written in another unit and admission webhooks that rewrite values cannot
// cause a loop, because values are never compared; status changes and other people's fields are invisible; and a
// restart loses nothing, because the evidence is on the object.
//
// An [Intent] is made from a Go object without the usual accident of server-side apply from Go types, where a zero
// value becomes a wish: only what was set is sent (see [NewIntent]).
//
// Creation is atomic: an object that turns out to exist is never adopted by chance, and an update never re-creates an
// object that was deleted meanwhile.
//
// Use it with any controller-runtime client and any reconciler. It does not order, wait or prune: package sdk does.
package apply
