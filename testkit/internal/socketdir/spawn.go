package socketdir

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// dialInterval is how often the socket of a new process is tried. It needs 20 to 50 ms to get that far.
const dialInterval = 2 * time.Millisecond

// Spawn starts a process that has to listen at the place, and returns a connection to it. The process outlives this
// one: it has a session of its own and holds none of this process's files, for the go command waits until nobody
// holds the output of a test. Its own output goes to the log. The caller holds the lock.
func (p Dir) Spawn(ctx context.Context, cmd *exec.Cmd, log string) (*net.UnixConn, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("making the log of a background process: %w", err)
	}
	defer func() { _ = file.Close() }()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a background process: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // as long as this process lives, it has to take note of the other's end
	for {
		conn, err := p.Dial()
		if err == nil {
			return conn, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("starting a background process: it ended at once (%w); its log:\n%s",
				err, process.Tail(log))
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("starting a background process: %w", ctx.Err()), cmd.Process.Kill())
		case <-time.After(dialInterval):
		}
	}
}
