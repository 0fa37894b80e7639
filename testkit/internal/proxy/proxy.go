package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// host is where a proxy listens. Nobody outside this machine can reach it.
const host = "127.0.0.1"

// headerTimeout is how long a client may take to say what it wants. On this machine it takes microseconds.
const headerTimeout = 30 * time.Second

// Options says what a proxy stands in front of.
type Options struct {
	// Target is the API server and the identity of all requests towards it.
	Target *rest.Config
	// Wrap makes the RoundTripper that all requests go through from the one that sends them to Target. It is called
	// once. Nil sends them on as they are. The RoundTripper learns from User whose request it has, and has to return
	// when the request's context ends. The body of a response to an upgrade is an io.ReadWriteCloser: it must not
	// be replaced by one that is not.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Namespace is the default one of the kubeconfigs, which some client libraries act in unless told otherwise.
	// Empty means none.
	Namespace string
	// ErrorLog gets the panics of Wrap's RoundTripper; nil means the log package's standard logger.
	ErrorLog *log.Logger
}

// A Proxy is a running proxy. Its methods may be called from several goroutines.
type Proxy struct {
	opts     Options
	url      string
	cert     certificate
	server   *http.Server
	upstream *upstream
	served   chan struct{} // closed when the server has ended
	end      func()        // does what Close says, once

	mu     sync.Mutex
	users  map[string]*user // by token
	closed bool
}

// Start starts a proxy. It ends with ctx, or by Close, whichever comes first.
func Start(ctx context.Context, opts Options) (*Proxy, error) {
	if opts.ErrorLog == nil {
		opts.ErrorLog = log.Default()
	}
	p := &Proxy{opts: opts, users: map[string]*user{}, served: make(chan struct{})}
	var err error
	if p.cert, err = newCertificate(); err != nil {
		return nil, err
	}
	if p.upstream, err = newUpstream(opts.Target); err != nil {
		return nil, err
	}
	var transport http.RoundTripper = p.upstream
	if opts.Wrap != nil {
		transport = opts.Wrap(transport)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	p.url = "https://" + listener.Addr().String()
	p.server = &http.Server{
		Handler:           &handler{proxy: p, forward: newForwarder(p.upstream.base, transport)},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{p.cert.serving}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: headerTimeout,
		// What it would say is that an operator was killed in the middle of something.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(p.served)
		_ = p.server.ServeTLS(listener, "", "") // it ends by Close, or because the listener is gone
	}()
	p.end = sync.OnceFunc(p.close)
	go func() {
		select {
		case <-ctx.Done():
			p.Close()
		case <-p.served:
		}
	}()
	return p, nil
}

// Config returns a new client configuration for the proxy. Each user has a token, the same for each call; the name is
// only what User tells.
func (p *Proxy) Config(name string) (*rest.Config, error) {
	token, err := p.token(name)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            p.url,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: p.cert.authority},
		QPS:             -1,
		UserAgent:       name,
	}, nil
}

// WriteKubeconfig writes a kubeconfig of the user, readable by the owner of this process alone. A file in its place is
// replaced in one go.
func (p *Proxy) WriteKubeconfig(path, name string) error {
	token, err := p.token(name)
	if err != nil {
		return err
	}
	const entry = "testkit"
	data, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{entry: {Server: p.url, CertificateAuthorityData: p.cert.authority}},
		AuthInfos:      map[string]*api.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*api.Context{entry: {Cluster: entry, AuthInfo: name, Namespace: p.opts.Namespace}},
		CurrentContext: entry,
	})
	if err == nil {
		err = replaceFile(path, data)
	}
	if err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
	}
	return nil
}

// token returns the token of a user, whom it makes if need be.
func (p *Proxy) token(name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return "", fmt.Errorf("letting %s use the proxy: %w", name, http.ErrServerClosed)
	}
	for token, u := range p.users {
		if u.name == name {
			return token, nil
		}
	}
	token := rand.Text()
	p.users[token] = newUser(name)
	return token, nil
}

// Revoke ends the user's requests, refuses all further ones, and returns when none is under way any more: from then on
// nothing of theirs leaves the proxy. The same name may be used again and gets another token.
func (p *Proxy) Revoke(name string) {
	p.mu.Lock()
	var revoked []*user
	for token, u := range p.users {
		if u.name == name {
			delete(p.users, token)
			revoked = append(revoked, u)
		}
	}
	p.mu.Unlock()
	for _, u := range revoked {
		u.end()
	}
}

// Close ends all requests and streams at once, without an answer, and returns when none is left. It may be called more
// than once.
func (p *Proxy) Close() { p.end() }

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	users := p.users
	p.users = nil
	p.mu.Unlock()
	_ = p.server.Close() // an error would be about a listener that is gone already
	for _, u := range users {
		u.end()
	}
	<-p.served
	p.upstream.close()
}

// begin finds the user with this token and counts a request of theirs.
func (p *Proxy) begin(token string) (*user, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, known := p.users[token]
	if known {
		u.requests.Add(1)
	}
	return u, known
}

// replaceFile never shows a file that is half written or that others may read.
func replaceFile(path string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
