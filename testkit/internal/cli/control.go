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

// placeKey is where the sandbox of a user is found. There is at most one.
const placeKey = "sandbox"

// What can be asked of a running sandbox.
const (
	askStatus = "status"
	askStop   = "stop"
)

// A status is what a running sandbox says about itself.
type status struct {
	// Dirs are the folders of its operators.
	Dirs []string `json:"dirs"`
	// Context is that of the cluster it uses; empty if the cluster is its own.
	Context string `json:"context,omitempty"`
	// Bare says that nothing was installed there.
	Bare bool `json:"bare,omitempty"`
	// Kubeconfig and Programs are known once the cluster can be used. Programs is the folder with kubectl.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Programs   string `json:"programs,omitempty"`
	// News is everything that has been reported.
	News []string `json:"news,omitempty"`
	// Ready says that all samples have been Ready once, and Hints what to try then.
	Ready bool     `json:"ready,omitempty"`
	Hints []string `json:"hints,omitempty"`
	// Failure says why it is going to end.
	Failure string   `json:"failure,omitempty"`
	View    snapshot `json:"view"`
}

// A controller answers the other testkit commands on behalf of a running sandbox.
type controller struct {
	listener *net.UnixListener
	place    socketdir.Dir
	stop     context.CancelFunc
	look     func() snapshot

	mu      sync.Mutex
	state   socketdir.State
	status  status
	waiting []net.Conn // of those who wait for the end
}

// control opens the sandbox's socket. The caller holds the lock of the place.
func control(p socketdir.Dir, stop context.CancelFunc) (*controller, error) {
	owner, err := process.Self()
	if err != nil {
		return nil, fmt.Errorf("identifying this process: %w", err)
	}
	l, err := p.Listen()
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it was doing
	}
	data, err := os.MkdirTemp("", "testkit-")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a folder for the sandbox: %w", err), l.Close())
	}
	k := &controller{listener: l, place: p, stop: stop, state: socketdir.State{Data: data, Owner: owner}}
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
		_ = conn.Close() // only looking whether somebody is there
		return
	}
	if question == askStop {
		// The end of the connection says that this process has ended. Were it not kept, the garbage collector would
		// close it before that.
		k.mu.Lock()
		k.waiting = append(k.waiting, conn)
		k.mu.Unlock()
		k.stop()
		return
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(k.current()); err != nil {
		return // whoever asked has gone
	}
}

func (k *controller) current() status {
	k.mu.Lock()
	s, look := k.status, k.look
	k.mu.Unlock()
	if look != nil {
		s.View = look()
	}
	return s
}

// change alters the status under its lock.
func (k *controller) change(f func(*status)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.status)
}

// started records a process for whoever may have to end it.
func (k *controller) started(id process.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Children = append(k.state.Children, id)
	_ = k.place.WriteState(k.state)
}

// close leaves the place. The process ends right afterwards.
func (k *controller) close() error {
	unlock, err := k.place.Lock(context.Background())
	if err != nil {
		return err //nolint:wrapcheck // says what it was doing
	}
	defer unlock()
	return errors.Join(k.listener.Close(), os.RemoveAll(k.state.Data), k.place.Remove())
}

// A client talks to the sandbox that runs.
type client struct{ place socketdir.Dir }

// errNotRunning says that there is no sandbox.
var errNotRunning = errors.New("nothing is running")

func findSandbox() (client, error) {
	root, err := socketdir.OpenRoot()
	if err != nil {
		return client{}, err //nolint:wrapcheck // says what it was doing
	}
	return client{place: root.Place(placeKey)}, nil
}

func (c client) ask(question string) (*net.UnixConn, error) {
	conn, err := c.place.Dial()
	if err != nil {
		return nil, errNotRunning
	}
	if err := json.NewEncoder(conn).Encode(question); err != nil {
		return nil, errors.Join(errNotRunning, conn.Close())
	}
	return conn, nil
}

func (c client) status() (status, error) {
	var s status
	conn, err := c.ask(askStatus)
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close() }()
	if err := json.NewDecoder(conn).Decode(&s); err != nil {
		return s, errNotRunning
	}
	return s, nil
}

// stop returns when the sandbox is gone.
func (c client) stop(ctx context.Context) error {
	state, err := c.place.ReadState()
	if err != nil {
		return errNotRunning
	}
	conn, err := c.ask(askStop)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = io.Copy(io.Discard, conn)
	return state.Owner.WaitEnd(ctx) //nolint:wrapcheck // says what it was doing
}

func (c *command) down(ctx context.Context, args []string) error {
	if err := c.noArguments("down", args); err != nil {
		return err
	}
	box, err := findSandbox()
	if err != nil {
		return err
	}
	s, _ := box.status() // without it there is nothing to stop, or nothing to say of it
	err = box.stop(ctx)
	switch {
	case errors.Is(err, errNotRunning):
		c.say("nothing is running")
		return nil
	case err == nil && s.Context != "":
		c.say("%s", leftBehind(s.Context, s.Dirs))
	case err == nil:
		c.say("stopped")
	}
	return err
}

func (c *command) kubeconfig(args []string) error {
	if err := c.noArguments("kubeconfig", args); err != nil {
		return err
	}
	box, err := findSandbox()
	if err != nil {
		return err
	}
	s, err := box.status()
	switch {
	case errors.Is(err, errNotRunning):
		return fmt.Errorf("%w; start it with %s", err, upCommand("", ""))
	case err != nil:
		return err
	case s.Kubeconfig == "":
		return errors.New("the control plane is still starting")
	}
	_, _ = fmt.Fprintln(c.out, s.Kubeconfig)
	return nil
}

// A snapshot is what there is to see.
type snapshot struct {
	Operators []operatorLine  `json:"operators,omitempty"`
	Tables    []sandbox.Table `json:"tables,omitempty"`
	Problem   string          `json:"problem,omitempty"`
}

type operatorLine struct {
	Name string `json:"name"`
	sandbox.Status
}

// look takes a snapshot of a sandbox.
func look(ctx context.Context, s *sandbox.Sandbox) snapshot {
	var shot snapshot
	for _, op := range s.Operators() {
		shot.Operators = append(shot.Operators, operatorLine{Name: op.Name, Status: op.Status()})
	}
	for _, p := range s.Processes() {
		name := fmt.Sprintf("%s (pod %s/%s)", p.Project, p.Namespace, p.Name)
		shot.Operators = append(shot.Operators, operatorLine{Name: name, Status: p.Status})
	}
	tables, err := s.Tables(ctx)
	if err != nil && ctx.Err() == nil { // that it is being stopped is no problem
		shot.Problem = err.Error()
	}
	shot.Tables = tables
	return shot
}
