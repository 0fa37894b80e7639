package proxy

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// A user is somebody who holds a token.
type user struct {
	name     string
	life     context.Context //nolint:containedctx // of the user's requests, which end when the token is revoked
	cancel   context.CancelFunc
	requests sync.WaitGroup
}

func newUser(name string) *user {
	u := &user{name: name}
	u.life, u.cancel = context.WithCancel(context.Background())
	return u
}

// end returns when all requests have ended. Nobody may begin another one.
func (u *user) end() {
	u.cancel()
	u.requests.Wait()
}

// join makes a request's context end with the user, and tells who that is.
func (u *user) join(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, userKey{}, u.name))
	stop := context.AfterFunc(u.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

type userKey struct{}

// User returns the name of the proxy's user whose request has this context, or "" if it did not come through a proxy.
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
