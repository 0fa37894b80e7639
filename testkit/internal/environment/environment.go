package environment

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// protocol changes with each incompatible change of the messages or files of this package, and of the services in the
// process.
const protocol = 3

// maxSlots bounds the number of environments that differ only in their objects.
const maxSlots = 20

// maxAttempts bounds the attempts to join environments that end meanwhile.
const maxAttempts = 5

// A Request describes the required environment.
type Request struct {
	// Tier is as in cluster.Options.
	Tier cluster.Tier
	// Nodes is the minimum number of simulated nodes, and the number of real ones.
	Nodes int
	// Real describes the nodes of the Real tier.
	Real RealNodes
	// Binaries is the folder with the programs of the control plane.
	Binaries string
	// Objects are cluster-wide objects to install. Requests without contradicting objects share an environment.
	Objects []*unstructured.Unstructured
	// Private requests an environment that no other process joins.
	Private bool
	// Name selects an environment that only requests of the same name share. Empty is the common one.
	Name string
	// UntilGoCommandEnds extends the lease until the end of the go command that runs this test binary, unless the
	// environment is private or has real nodes.
	UntilGoCommandEnds bool
	// Progress receives messages while an environment starts; nil drops them.
	Progress func(string)
}

// RealNodes describes the nodes of the Real tier: see cluster.Options.
type RealNodes struct {
	NodePrograms   string        `json:"nodePrograms,omitempty"`
	Images         []string      `json:"images,omitempty"`
	NodeLease      time.Duration `json:"nodeLease,omitempty"`
	RestartBackoff time.Duration `json:"restartBackoff,omitempty"`
	Ingress        bool          `json:"ingress,omitempty"`
	Metrics        bool          `json:"metrics,omitempty"`
}

// A Lease is the use of an environment. It ends with Release or with the process, whichever is first.
type Lease struct {
	// Config is the client configuration of a cluster administrator.
	Config *rest.Config
	// Dir contains a file named kubeconfig and the logs of the components. It exists as long as the environment.
	Dir string

	conn   *net.UnixConn
	stream *stream
	owner  process.ID
	done   chan struct{}
	err    error // set before done is closed
	shared bool  // the environment has other leases; set before done is closed
}

// Acquire joins a matching environment, or starts one.
func Acquire(ctx context.Context, req Request) (*Lease, error) {
	if dir := os.Getenv(serverVariable); dir != "" {
		return nil, fmt.Errorf("leasing a control plane: this process should be one itself (%s is set): "+
			"call RunHelperProcess, or testkit.Main, before anything else", serverVariable)
	}
	root, err := socketdir.OpenRoot()
	if err != nil {
		return nil, err
	}
	request, err := newLeaseRequest(req)
	if err != nil {
		return nil, err
	}
	for slot := range maxSlots {
		lease, err := acquireLease(ctx, root, root.Dir(key(req, slot)), req, request)
		if errors.Is(err, errConflict) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("leasing a control plane: %w", err)
		}
		return lease, nil
	}
	return nil, fmt.Errorf("leasing a control plane: %d of them run with other versions of the same objects", maxSlots)
}

// key identifies an environment by all properties that its leases have to share. It is short because it is part of the
// path of a unix socket.
func key(req Request, slot int) string {
	name := req.Name
	if req.Private {
		name = rand.Text()
	}
	text := fmt.Sprintf("%d %s %s %q %d", protocol, req.Tier, req.Binaries, name, slot)
	if req.Tier == cluster.Real {
		text += fmt.Sprintf(" %d %#v", req.Nodes, req.Real)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// acquireLease joins the environment in this socket directory, or starts one there.
func acquireLease(ctx context.Context, root socketdir.Root, p socketdir.Dir, req Request, h leaseRequest) (*Lease, error) {
	var last error
	for range maxAttempts {
		conn, err := connect(ctx, root, p, req)
		if err != nil {
			return nil, err
		}
		lease, err := attach(ctx, conn, h, req.Progress)
		if err == nil || !errors.Is(err, errEnded) {
			return lease, err
		}
		last = err // it was about to stop
	}
	return nil, last
}

// connect dials the server process, and starts one if none listens.
func connect(ctx context.Context, root socketdir.Root, p socketdir.Dir, req Request) (*net.UnixConn, error) {
	if conn, err := p.Dial(); err == nil {
		return conn, nil
	}
	// Starting and stopping happen under the same lock. Under the lock, a socket either has a live listener or is a
	// remnant of a dead process.
	unlock, err := p.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if conn, err := p.Dial(); err == nil {
		return conn, nil
	}
	root.RemoveStale()
	if err := p.Clean(); err != nil {
		return nil, err
	}
	return spawn(ctx, p, req)
}

// attach sends the request and waits until the environment is ready.
func attach(ctx context.Context, conn *net.UnixConn, h leaseRequest, progress func(string)) (*Lease, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	s := newStream(conn)
	err := s.send(h)
	for err == nil {
		var r reply
		if err = s.receive(&r); err != nil {
			break
		}
		switch {
		case r.Ready != nil:
			if !stop() {
				break // ctx has ended and the connection is no longer usable
			}
			return newLease(conn, s, r.Ready), nil
		case r.Conflict != "":
			err = fmt.Errorf("%w: %s", errConflict, r.Conflict)
		case r.Failure != "":
			err = errors.New(r.Failure)
		case progress != nil:
			progress(r.Progress)
		}
	}
	_ = conn.Close()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, io.EOF) || isReset(err):
		return nil, errEnded
	default:
		return nil, err
	}
}

func newLease(conn *net.UnixConn, s *stream, r *ready) *Lease {
	l := &Lease{
		Config: &rest.Config{
			Host: r.Host, BearerToken: r.Token, TLSClientConfig: rest.TLSClientConfig{CAData: r.CA},
			QPS: -1, UserAgent: filepath.Base(os.Args[0]), DisableCompression: true, // on one machine it only costs time
		},
		Dir: r.Dir, conn: conn, stream: s, owner: r.Owner, done: make(chan struct{}),
	}
	go l.listen()
	return l
}

// listen waits for the end of the environment.
func (l *Lease) listen() {
	defer close(l.done)
	var r reply
	if err := l.stream.receive(&r); err != nil {
		l.err = errEnded
		return
	}
	l.shared = r.HasOtherLeases
	l.err = errors.New(r.Failure)
}

// Done is closed when the environment has ended, or has confirmed the end of a lease.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns the reason for the end of the environment. It may be called only after Done is closed.
func (l *Lease) Err() error { return l.err }

// Release ends the lease. It may be called more than once.
func (l *Lease) Release() { _ = l.conn.Close() }

// ReleaseAndWait ends the lease and returns when the environment has stopped, or when it has other leases.
func (l *Lease) ReleaseAndWait(ctx context.Context) error {
	if err := l.conn.CloseWrite(); err != nil {
		return nil // it was released before, or the environment has ended
	}
	defer l.Release()
	select {
	case <-l.done:
		if l.shared {
			return nil
		}
		return l.owner.WaitEnd(ctx)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the control plane to stop: %w", ctx.Err())
	}
}

// waitsForNextPackage reports whether the next package of a go command may use the same environment. No other process joins
// a private one. Idle real nodes would take processors from the next package: their pods and kubelets still run.
func (r Request) waitsForNextPackage() bool { return !r.Private && r.Tier != cluster.Real }

func newLeaseRequest(req Request) (leaseRequest, error) {
	h := leaseRequest{Nodes: req.Nodes}
	for _, object := range req.Objects {
		data, err := json.Marshal(object.Object)
		if err != nil {
			return leaseRequest{}, fmt.Errorf("encoding %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		h.Objects = append(h.Objects, data)
	}
	if !req.UntilGoCommandEnds || !req.waitsForNextPackage() {
		return h, nil
	}
	parent := os.Getppid()
	if name, err := process.Command(parent); err == nil && name == "go" {
		if id, err := process.Identify(parent); err == nil {
			h.Until = &id
		}
	}
	return h, nil
}
