// Package apply brings one object to a desired state with server-side apply, and sends no request if the object is
// converged.
//
// The check is idempotent and cheap: it makes no request and compares no values. The API server records the fields that each
// manager owns; a change of an owned field by another manager takes that ownership away. An object is converged if and only
// if it carries the digest of the current [Intent] (annotation [DigestAnnotation]) and our entry in metadata.managedFields
// still covers every field of it. Defaults, quantities in another unit and admission webhooks that rewrite values cannot
// cause a loop, because values are never compared. Changes of the status and of foreign fields do not matter. A restart
// loses nothing, because the digest and the field ownership are stored on the object.
//
// An [Intent] is made from a Go object without a common pitfall of server-side apply with Go types, where zero values are
// applied too: only fields that are set are sent (see [NewIntent]).
//
// Creation is atomic: an object that turns out to exist is never adopted by chance, and an update never creates a deleted
// object again.
//
// The package works with any controller-runtime client and any reconciler. It does not order, wait or prune; package sdk
// does.
package apply
