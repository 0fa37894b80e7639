// Package proxy stands between an operator that is a process of its own and the API server, so that its requests pass
// through an http.RoundTripper, as those of an operator in this process do by rest.Config.WrapTransport.
//
// An operator in any language is pointed at it by a kubeconfig. Towards the API server its requests are those of the
// proxy's target, for example of a ServiceAccount. Whatever the RoundTripper makes of a request is what the client
// gets: its response as it is, or, for an error, a broken connection and no answer.
//
// Three things are changed on the way, so that a RoundTripper can read what passes: protobuf and CBOR are taken out of
// what the client accepts, so that the server answers in JSON; nothing is compressed; and a request's body has a
// GetBody if its length is known and at most 4 MiB.
//
// It is no gateway: it listens on the loopback interface, trusts its own tokens only, and has no policy.
package proxy
