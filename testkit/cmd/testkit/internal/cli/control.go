package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// Requests to a running sandbox.
const (
	askStatus = "status"
	askView   = "view" // the status with the view, which costs requests to the API server
	askStop   = "stop"
)

// A status is the state that a running sandbox reports.
type status struct {
	// Dirs lists the folders of its operators.
	Dirs []string `json:"dirs"`
	// Context is the context of an existing cluster. It is empty if the sandbox owns its cluster.
	Context string `json:"context,omitempty"`
	// WithoutOperators reports that nothing was installed.
	WithoutOperators bool `json:"bare,omitempty"`
	// Real reports that the nodes are real.
	Real bool `json:"real,omitempty"`
	// Kubeconfig and Programs are set when the cluster is usable. Programs is the folder with kubectl.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Programs   string `json:"programs,omitempty"`
	// Ingress has the addresses of the Ingress controller of real nodes.
	Ingress sandbox.IngressAddresses `json:"ingress,omitzero"`
	// Lines lists all lines reported so far.
	Lines []string `json:"lines,omitempty"`
	// Ready reports that all samples have been Ready once. SampleCommands are commands to try then.
	Ready          bool     `json:"ready,omitempty"`
	SampleCommands []string `json:"hints,omitempty"`
	// Failure is the reason why it is about to end.
	Failure string `json:"failure,omitempty"`
	// View is empty unless it was asked for.
	View snapshot `json:"view,omitzero"`
}

// A controller serves the requests of other testkit commands in a running sandbox.
type controller struct {
	listener     *net.UnixListener
	dir          socketdir.Dir
	stop         context.CancelFunc
	takeSnapshot func() snapshot

	mu      sync.Mutex
	state   socketdir.State
	status  status
	waiting []net.Conn // of clients that wait for the end
}

// control opens the sandbox's socket. The caller holds the lock of the directory.
func control(p socketdir.Dir, stop context.CancelFunc) (*controller, error) {
	owner, err := process.Self()
	if err != nil {
		return nil, fmt.Errorf("identifying this process: %w", err)
	}
	l, err := p.Listen()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "testkit-")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a folder for the sandbox: %w", err), l.Close())
	}
	k := &controller{listener: l, dir: p, stop: stop, state: socketdir.State{Data: data, Owner: owner}}
	if err := p.WriteState(k.state); err != nil {
		return nil, errors.Join(err, l.Close(), os.RemoveAll(data))
	}
	go k.serve()
	return k, nil
}

func (k *controller) serve() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return // closed
		}
		go k.answer(conn)
	}
}

func (k *controller) answer(conn net.Conn) {
	var question string
	if json.NewDecoder(conn).Decode(&question) != nil {
		_ = conn.Close() // only a check for a running sandbox
		return
	}
	if question == askStop {
		// The closing connection signals the end of this process. If it were not referenced, the garbage collector would
		// close it earlier.
		k.mu.Lock()
		k.waiting = append(k.waiting, conn)
		k.mu.Unlock()
		k.stop()
		return
	}
	defer func() { _ = conn.Close() }()
	s := k.current()
	if question == askView {
		s.View = k.view()
	}
	if err := json.NewEncoder(conn).Encode(s); err != nil {
		return // the client has disconnected
	}
}

// current returns the status without the view.
func (k *controller) current() status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *controller) view() snapshot {
	k.mu.Lock()
	takeSnapshot := k.takeSnapshot
	k.mu.Unlock()
	if takeSnapshot == nil {
		return snapshot{}
	}
	return takeSnapshot()
}

// change modifies the status under its lock.
func (k *controller) change(f func(*status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.status)
}

// started records a process for clients that may have to end it.
func (k *controller) started(id process.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Children = append(k.state.Children, id)
	_ = k.dir.WriteState(k.state)
}

// close removes the data and the socket. The process ends right afterwards. No command waits for the reason why a background
// sandbox ends after it was ready: close records it, after it has removed the data, because the disk may be full.
func (k *controller) close() error {
	unlock, err := k.dir.Lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	err = os.RemoveAll(k.state.Data)
	if failure := k.lateFailure(); failure != "" {
		err = errors.Join(err, k.dir.WriteFailure(failure))
	}
	return errors.Join(err, k.listener.Close(), k.dir.Remove())
}

// lateFailure returns the reason of an end after the sandbox was ready.
func (k *controller) lateFailure() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.status.Ready {
		return ""
	}
	return k.status.Failure
}

// A client sends requests to the running sandbox.
type client struct{ dir socketdir.Dir }

// errNotRunning means that there is no sandbox.
var errNotRunning = errors.New("nothing is running")

func (c client) ask(question string) (*net.UnixConn, error) {
	conn, err := c.dir.Dial()
	if err != nil {
		return nil, errNotRunning
	}
	if err := json.NewEncoder(conn).Encode(question); err != nil {
		return nil, errors.Join(errNotRunning, conn.Close())
	}
	return conn, nil
}

// status returns the status without the view.
func (c client) status() (status, error) { return c.askAbout(askStatus) }

func (c client) askAbout(question string) (status, error) {
	var s status
	conn, err := c.ask(question)
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewDecoder(conn).Decode(&s); err != nil {
		return s, errNotRunning
	}
	return s, nil
}

// stop returns when the sandbox has ended.
func (c client) stop(ctx context.Context) error {
	state, err := c.dir.ReadState()
	if err != nil {
		return errNotRunning
	}
	conn, err := c.ask(askStop)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.Copy(io.Discard, conn)
	return state.Owner.WaitEnd(ctx)
}

// A snapshot is the visible state of a sandbox.
type snapshot struct {
	Operators []operatorLine  `json:"operators,omitempty"`
	Tables    []sandbox.Table `json:"tables,omitempty"`
	Problem   string          `json:"problem,omitempty"`
}

type operatorLine struct {
	Name string `json:"name"`
	sandbox.Status
}

// takeSnapshot reads the state of a sandbox.
func takeSnapshot(ctx context.Context, s *sandbox.Sandbox) snapshot {
	var current snapshot
	for _, op := range s.Operators() {
		current.Operators = append(current.Operators, operatorLine{Name: op.Name, Status: op.Status()})
	}
	for _, p := range s.Processes() {
		name := fmt.Sprintf("%s (pod %s/%s)", p.Project, p.Namespace, p.Name)
		current.Operators = append(current.Operators, operatorLine{Name: name, Status: p.Status})
	}
	tables, err := s.Tables(ctx)
	if err != nil && ctx.Err() == nil { // an interruption is not an error
		current.Problem = err.Error()
	}
	current.Tables = tables
	return current
}
