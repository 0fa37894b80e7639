package sandbox

import (
	"context"
	"fmt"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// tokenRetry is how soon a token is asked for again when the server did not give one.
const tokenRetry = 10 * time.Second

// credentials are those of a ServiceAccount: a kubeconfig, and a token that is kept fresh. The token is a file of its own,
// as in a pod: clients read it again.
type credentials struct {
	client client.Client
	config *rest.Config // says where the cluster is
	// account is the ServiceAccount, and pod what its token is bound to; nil means that it is good by itself.
	account client.ObjectKey
	pod     *authenticationv1.BoundObjectReference
	// file begins the names of the files.
	file   string
	name   string // whose they are, for people
	report func(format string, args ...any)
}

// user is who has these credentials to the cluster.
func (c *credentials) user() string {
	return fmt.Sprintf("system:serviceaccount:%s:%s", c.account.Namespace, c.account.Name)
}

func (c *credentials) token() string { return c.file + ".token" }

// write writes the files, and returns the name of the kubeconfig and when the token expires.
func (c *credentials) write(ctx context.Context) (kubeconfig string, expires time.Time, err error) {
	if expires, err = c.writeToken(ctx); err != nil {
		return "", expires, err
	}
	cfg := rest.AnonymousClientConfig(c.config)
	cfg.BearerTokenFile = c.token()
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		return "", expires, err //nolint:wrapcheck // says what it was doing
	}
	kubeconfig = c.file + ".kubeconfig"
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		return "", expires, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return kubeconfig, expires, nil
}

// writeToken asks for a token, replaces the file with it and returns when the token expires.
func (c *credentials) writeToken(ctx context.Context) (time.Time, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.account.Namespace, Name: c.account.Name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: c.pod}}
	if err := c.client.SubResource("token").Create(ctx, account, request); err != nil {
		return time.Time{}, fmt.Errorf("requesting a token for ServiceAccount %s: %w", c.account, err)
	}
	if err := os.WriteFile(c.token()+".new", []byte(request.Status.Token), 0o600); err != nil {
		return time.Time{}, fmt.Errorf("writing a token: %w", err)
	}
	if err := os.Rename(c.token()+".new", c.token()); err != nil {
		return time.Time{}, fmt.Errorf("writing a token: %w", err)
	}
	return request.Status.ExpirationTimestamp.Time, nil
}

// refresh replaces the token when half of its life is over, until stop is closed.
func (c *credentials) refresh(expires time.Time, stop <-chan struct{}) {
	wait := time.Until(expires) / 2
	for {
		select {
		case <-stop:
			return
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(context.Background(), tokenRetry)
		expires, err := c.writeToken(ctx)
		cancel()
		wait = time.Until(expires) / 2
		if err != nil {
			c.report("%s: %v", c.name, err)
			wait = tokenRetry
		}
	}
}
