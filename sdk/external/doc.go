// Package external describes resources outside of the cluster that belong to a custom resource: an account of a service, a
// bucket, a DNS record.
//
// A [Kind] is a value with the requests of one remote API. An operator lists it in sdk.Operator.External, and its Reconcile
// records the desired resources with sdk.External. The engine of package sdk makes the requests:
//
//   - The intent is stored in the status of the custom resource, with its resourceVersion as precondition, before a request
//     is sent. A request without an answer, also one before a crash, is resolved before the next one.
//   - Before the first request the custom resource has the finalizer of the operator. A resource that is not recorded any
//     more is deleted, and the custom resource remains until the remote API has said that all of its resources are gone.
//   - A failed request is repeated with backoff, after the time that the remote API requests, and within the limits of its
//     [Account]. A pending resource is polled. A resource in its desired state causes no request.
//   - A paused object, a dry run and sdk.Dry cause no request.
//
// # Exactly once
//
// How a creation happens exactly once depends on the remote API. [Kind.API] is one of these types:
//
//   - [ByToken]: a creation carries an idempotency token, and its repetition returns the same resource.
//   - [ByName]: the client selects the name of the resource, and the API rejects a second one.
//   - [ByTag]: a resource can be found by a token that its creation stores in it.
//   - [AtMostOnce]: none of these. After a creation without an answer the operator cannot know whether the resource exists.
//     The custom resource is Stalled with reason ExternalOutcomeUnknown until an annotation says so.
//
// A request that reaches the API later than [Kind.MaxLatency] after it was sent is outside of these guarantees.
package external
