// Package proxy is an HTTP proxy between an operator in a process of its own and the API server. The operator's
// requests pass through an http.RoundTripper, like those of an operator in this process through
// rest.Config.WrapTransport.
//
// An operator in any language uses it by a kubeconfig. The API server sees the identity of the proxy's target, for
// example of a ServiceAccount. The client gets the RoundTripper's response unchanged. If the RoundTripper returns an
// error, the client sees a broken connection without a response.
//
// Three things are changed, so that a RoundTripper can read the traffic: protobuf and CBOR are removed from the
// accepted media types, so that the server responds in JSON; nothing is compressed; and a request's body has a GetBody
// if its length is known and at most 4 MiB.
//
// It is not a gateway: it listens on the loopback interface, trusts its own tokens only, and has no policy.
package proxy
