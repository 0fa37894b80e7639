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

// host is the address of a proxy. It is not reachable from other machines.
const host = "127.0.0.1"

// headerTimeout bounds the time for a client to send the headers. On this machine it takes microseconds.
const headerTimeout = 30 * time.Second

// Options configures a proxy.
type Options struct {
	// Target is the API server and the identity of all requests to it.
	Target *rest.Config
	// Wrap returns the RoundTripper for all requests. Its argument sends them to Target. It is called once. Nil forwards the
	// requests unchanged. The RoundTripper gets the name of a request's user from User, and has to return when the request's
	// context ends. The body of a response to an upgrade is an io.ReadWriteCloser, and its replacement must be one, too.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Namespace is the default namespace of the kubeconfigs. Some client libraries use it by default. Empty means none.
	Namespace string
	// ErrorLog receives the panics of Wrap's RoundTripper; nil means the log package's standard logger.
	ErrorLog *log.Logger
}

// A Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	opts     Options
	url      string
	cert     certificate
	server   *http.Server
	upstream *upstream
	served   chan struct{} // closed when the server has ended
	end      func()        // implements Close, once

	mu     sync.Mutex
	users  map[string]*user // by token
	closed bool
}

// Start starts a proxy. It runs until ctx ends or Close is called.
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
		// The messages would only report that an operator was killed during a request.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(p.served)
		_ = p.server.ServeTLS(listener, "", "") // it ends by Close, or because the listener is closed
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

// Config returns a new client configuration for the proxy. Each user has a token, the same for each call. The name is
// only used by User.
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

// WriteKubeconfig writes a kubeconfig of the user, readable only by the owner of this process. An existing file is
// replaced atomically.
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

// token returns the token of a user, which it creates if necessary.
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

// Revoke ends the user's requests, rejects all further ones, and returns when none is in progress. From then on the
// proxy forwards no request of the user. The same name may be used again and gets another token.
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

// Close ends all requests and streams at once, without a response, and returns when none is left. It may be called more
// than once.
func (p *Proxy) Close() { p.end() }

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	users := p.users
	p.users = nil
	p.mu.Unlock()
	_ = p.server.Close() // an error would only report a closed listener
	for _, u := range users {
		u.end()
	}
	<-p.served
	p.upstream.close()
}

// beginRequest finds the user of this token and counts a new request.
func (p *Proxy) beginRequest(token string) (*user, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u, known := p.users[token]
	if known {
		u.requests.Add(1)
	}
	return u, known
}

// replaceFile writes a file atomically and never readable by other users.
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
