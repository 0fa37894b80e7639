package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// serverVariable is the environment variable that makes a process a server process, with its directory.
const serverVariable = "TESTKIT_ENVIRONMENT"

// spec is the configuration of a new environment.
type spec struct {
	Tier     cluster.Tier `json:"tier"`
	Nodes    int          `json:"nodes"`
	Binaries string       `json:"binaries"`
	Data     string       `json:"data"`
	Real     RealNodes    `json:"real"`
}

// spawn starts an environment and returns a connection to it. The caller holds the lock.
func spawn(ctx context.Context, p socketdir.Dir, req Request) (*net.UnixConn, error) {
	s := spec{Tier: req.Tier, Nodes: req.Nodes, Binaries: req.Binaries, Real: req.Real}
	var err error
	if s.Data, err = os.MkdirTemp("", "testkit-"); err != nil {
		return nil, fmt.Errorf("making a folder for an environment: %w", err)
	}
	conn, err := spawnIn(ctx, p, s)
	if err != nil {
		return nil, errors.Join(err, p.Clean(), os.RemoveAll(s.Data))
	}
	return conn, nil
}

func spawnIn(ctx context.Context, p socketdir.Dir, s spec) (*net.UnixConn, error) {
	if err := os.Mkdir(p.Path(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making a folder for an environment: %w", err)
	}
	if err := p.WriteState(socketdir.State{Data: s.Data}); err != nil {
		return nil, err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding what the environment should be: %w", err)
	}
	if err := os.WriteFile(p.File("spec.json"), data, 0o600); err != nil {
		return nil, fmt.Errorf("writing what the environment should be: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(program)
	cmd.Args = []string{"testkit-environment", p.Path()} // the name in the list of processes
	cmd.Env = append(os.Environ(), serverVariable+"="+p.Path())
	if os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // with -race, the end of a process would take a second
	}
	return p.Spawn(ctx, cmd, filepath.Join(s.Data, "environment.log"))
}
