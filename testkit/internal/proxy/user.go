package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// A user is the holder of a token.
type user struct {
	name     string
	ctx      context.Context //nolint:containedctx // of the user's requests, which end when the token is revoked
	cancel   context.CancelFunc
	requests sync.WaitGroup
}

func newUser(name string) *user {
	u := &user{name: name}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

// end returns when all requests have ended. No further one can begin.
func (u *user) end() {
	u.cancel()
	u.requests.Wait()
}

// requestContext makes a request's context end with the user, and adds the user's name to it.
func (u *user) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, userKey{}, u.name))
	stop := context.AfterFunc(u.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

type userKey struct{}

// User returns the name of the proxy user of this request's context, or "" for a request that did not use a proxy.
func User(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// bearer returns the request's bearer token, or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
