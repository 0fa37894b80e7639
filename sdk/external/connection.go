package external

import (
	"context"
	"fmt"
)

// Connection is how the requests for the resources of one object are made, where that depends on the object: see
// sdk.Operator.Connect.
type Connection struct {
	// Account identifies the account of the remote API, for example by its number. It is stored in the status of each
	// resource, and must not be a secret. Each account has the limits of Kind.Account for itself. A resource stays in its
	// account: if another one is returned for it, the custom resource is Stalled with reason ExternalAccountChanged.
	Account string
	// Version identifies the credentials, such as the resourceVersion of their Secret. With another version a request that
	// has failed is repeated at once.
	Version string
	// Client is what the functions of the kind get from [Client], such as a client of the remote API.
	Client any
}

type clientKey struct{}

// WithClient returns a context for the functions of a kind. It serves their tests: the engine sets Connection.Client itself.
func WithClient(ctx context.Context, client any) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// Client returns the Connection.Client of the object that a function of a kind is called for. The error says that there is
// none of this type.
func Client[C any](ctx context.Context) (C, error) {
	client, ok := ctx.Value(clientKey{}).(C)
	if !ok {
		return client, fmt.Errorf("there is no client of type %T for the external resource, but a %T: set Operator.Connect",
			client, ctx.Value(clientKey{}))
	}
	return client, nil
}
