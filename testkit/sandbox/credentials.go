package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// credentials writes a kubeconfig for the operator's ServiceAccount and keeps its token fresh. The token is a file of
// its own, as in a pod: clients read it again.
func (s *Sandbox) credentials(ctx context.Context, p *Project) (kubeconfig string, err error) {
	token := filepath.Join(s.dir, p.Name+".token")
	expires, err := s.writeToken(ctx, p, token)
	if err != nil {
		return "", err
	}
	s.wg.Go(func() { s.refresh(p, token, expires) })
	cfg := rest.AnonymousClientConfig(s.config)
	cfg.BearerTokenFile = token
	data, err := cluster.Kubeconfig(cfg)
	if err != nil {
		return "", err //nolint:wrapcheck // says what it was doing
	}
	kubeconfig = filepath.Join(s.dir, p.Name+".kubeconfig")
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return kubeconfig, nil
}

// writeToken asks for a token, replaces the file with it and returns when the token expires.
func (s *Sandbox) writeToken(ctx context.Context, p *Project, file string) (time.Time, error) {
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Deployment.Namespace, Name: p.account()},
	}
	request := &authenticationv1.TokenRequest{}
	if err := s.client.SubResource("token").Create(ctx, account, request); err != nil {
		return time.Time{}, fmt.Errorf("requesting a token for ServiceAccount %s: %w",
			client.ObjectKeyFromObject(account), err)
	}
	if err := os.WriteFile(file+".new", []byte(request.Status.Token), 0o600); err != nil {
		return time.Time{}, fmt.Errorf("writing a token: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return time.Time{}, fmt.Errorf("writing a token: %w", err)
	}
	return request.Status.ExpirationTimestamp.Time, nil
}

// refresh replaces the token when half of its life is over.
func (s *Sandbox) refresh(p *Project, file string, expires time.Time) {
	wait := time.Until(expires) / 2
	for {
		select {
		case <-s.stopped:
			return
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(context.Background(), tokenRetry)
		expires, err := s.writeToken(ctx, p, file)
		cancel()
		wait = time.Until(expires) / 2
		if err != nil {
			s.report("operator %s: %v", p.Name, err)
			wait = tokenRetry
		}
	}
}
