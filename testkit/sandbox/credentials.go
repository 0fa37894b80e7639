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

// tokenRetry is the delay after a failed token request.
const tokenRetry = 10 * time.Second

// credentials are a kubeconfig and a token of a ServiceAccount. The token is renewed. It is in a file of its own, as in
// a pod, because clients read that file again.
type credentials struct {
	client client.Client
	config *rest.Config // contains the address of the cluster
	// account is the ServiceAccount. pod is the object to bind the token to, or nil.
	account client.ObjectKey
	pod     *authenticationv1.BoundObjectReference
	// file is the prefix of the file names.
	file   string
	name   string // owner of the credentials, for messages
	report func(format string, args ...any)
}

// user returns the user name of the credentials.
func (c *credentials) user() string {
	return fmt.Sprintf("system:serviceaccount:%s:%s", c.account.Namespace, c.account.Name)
}

func (c *credentials) token() string { return c.file + ".token" }

// write writes the files. It returns the name of the kubeconfig and the expiry of the token.
func (c *credentials) write(ctx context.Context) (kubeconfig string, expires time.Time, err error) {
	if expires, err = c.writeToken(ctx); err != nil {
		return "", expires, err
	}
	cfg := rest.AnonymousClientConfig(c.config)
	cfg.BearerTokenFile = c.token()
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		return "", expires, err
	}
	kubeconfig = c.file + ".kubeconfig"
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		return "", expires, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return kubeconfig, expires, nil
}

// writeToken requests a token, replaces the file and returns the expiry of the token.
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

// refresh renews the token after half of its lifetime, until stop is closed.
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
