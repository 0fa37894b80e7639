package environment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// holderInterval is the polling interval for the end of a process that extends a lease.
const holderInterval = 50 * time.Millisecond

// setupTimeout bounds the installation of new objects and nodes.
const setupTimeout = time.Minute

// A server grants leases on one control plane.
type server struct {
	dir      socketdir.Dir
	spec     spec
	listener *net.UnixListener
	progress startProgress

	started chan struct{}    // closed when no more processes are being started
	cluster *cluster.Cluster // set before that, or nil if it could not be started

	ready  chan struct{} // closed when the control plane can be used
	failed chan struct{} // closed when it has failed
	closed chan struct{} // closed when no more leases are granted
	unused chan struct{} // has a value when the last lease may have ended

	mu          sync.Mutex
	cause       error // reason of the failure
	state       socketdir.State
	leases      int
	closedConns []*net.UnixConn // connections of clients that have left
	holders     map[process.ID]bool

	installing sync.Mutex
	objects    map[string]string // hash of the content by identity of the object
}

func (s *server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return // closed
		}
		go s.handle(conn)
	}
}

// handle serves one client until it leaves.
func (s *server) handle(conn *net.UnixConn) {
	stream := newStream(conn)
	var h leaseRequest
	if stream.receive(&h) != nil || !s.lease() {
		_ = conn.Close() // it sent no request, or the server is closed
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = io.Copy(io.Discard, conn)
	}()
	if s.prepare(stream, h, left) {
		select {
		case <-left:
		case <-s.failed:
			_ = stream.send(reply{Failure: s.reason()})
		}
	}
	s.hold(h.Until)
	s.releaseEndedLeases() // check the holders now, because the reply depends on whether this is the last lease
	// The last client waits for the end of its connection, which proves the end of this process. Others need not wait.
	if s.release(conn) > 0 {
		_ = stream.send(reply{HasOtherLeases: true})
		_ = conn.Close()
	}
}

// prepare sends progress until the client can use the control plane. It returns false if that fails.
func (s *server) prepare(stream *stream, h leaseRequest, left <-chan struct{}) bool {
	for {
		text, changed := s.progress.latest()
		if text != "" && stream.send(reply{Progress: text}) != nil {
			return false
		}
		select {
		case <-s.ready:
			answer := s.installClientObjects(h)
			return stream.send(answer) == nil && answer.Ready != nil
		case <-s.failed:
			_ = stream.send(reply{Failure: s.reason()})
			return false
		case <-left:
			return false
		case <-changed:
		}
	}
}

func (s *server) installClientObjects(h leaseRequest) reply {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	err := s.install(ctx, h.Objects)
	if err == nil && s.spec.Tier == cluster.Workloads {
		err = s.cluster.EnsureNodes(ctx, h.Nodes)
	}
	switch {
	case errors.Is(err, errConflict):
		return reply{Conflict: err.Error()}
	case err != nil:
		return reply{Failure: err.Error()}
	}
	cfg := s.cluster.Config()
	return reply{Ready: &ready{
		Host: cfg.Host, Token: cfg.BearerToken, CA: cfg.CAData, Dir: s.spec.Data, Owner: s.state.Owner,
	}}
}

// install adds missing objects. It returns errConflict if an object exists in another version.
func (s *server) install(ctx context.Context, documents []json.RawMessage) error {
	s.installing.Lock()
	defer s.installing.Unlock()
	hashes := map[string]string{}
	var missing []*unstructured.Unstructured
	for _, document := range documents {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(document, &u.Object); err != nil {
			return fmt.Errorf("decoding an object: %w", err)
		}
		id := fmt.Sprintf("%s %s/%s", u.GroupVersionKind().GroupKind(), u.GetNamespace(), u.GetName())
		sum := sha256.Sum256(document)
		hash := hex.EncodeToString(sum[:])
		switch known := s.objects[id]; {
		case known == "":
			missing = append(missing, u)
		case known != hash:
			return fmt.Errorf("%w: another version of %s is installed", errConflict, id)
		}
		hashes[id] = hash
	}
	if err := manifest.Install(ctx, s.cluster.Config(), missing); err != nil {
		return fmt.Errorf("installing objects: %w", err)
	}
	maps.Copy(s.objects, hashes)
	return nil
}

// lease counts a client, unless the server is closed.
func (s *server) lease() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return false
	default:
		s.leases++
		return true
	}
}

// release ends a lease and returns the number of remaining leases. It keeps a reference to the connection: Go's garbage
// collector would close an unreferenced one.
func (s *server) release(conn *net.UnixConn) int {
	s.mu.Lock()
	s.leases--
	left := s.leases
	s.closedConns = append(s.closedConns, conn)
	s.mu.Unlock()
	s.checkUnused()
	return left
}

// hold keeps the lease of a client that has left until the given process ends.
func (s *server) hold(id *process.ID) {
	if id == nil || !id.Alive() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[*id] {
		return
	}
	s.holders[*id] = true
	s.leases++
	go func() {
		for range time.Tick(holderInterval) {
			if !id.Alive() {
				break
			}
		}
		s.releaseEndedLeases()
	}()
}

// releaseEndedLeases ends the leases of processes that have ended.
func (s *server) releaseEndedLeases() {
	s.mu.Lock()
	for id := range s.holders {
		if !id.Alive() {
			delete(s.holders, id)
			s.leases--
		}
	}
	s.mu.Unlock()
	s.checkUnused()
}

// checkUnused signals serve if there is no lease.
func (s *server) checkUnused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == 0 {
		select {
		case s.unused <- struct{}{}:
		default:
		}
	}
}

// close stops granting leases, if there are none or the control plane has failed.
func (s *server) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases > 0 && s.cause == nil {
		return false
	}
	close(s.closed)
	_ = s.listener.Close() // removes the socket as well
	return true
}

// fail ends the leases of all clients.
func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = err
		close(s.failed)
	}
}

func (s *server) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause.Error()
}

// startProgress is the latest progress of the start of the control plane.
type startProgress struct {
	mu      sync.Mutex
	text    string
	changed chan struct{} // closed and replaced with each message
}

func (n *startProgress) publish(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = text
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *startProgress) latest() (text string, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text, n.changed
}
