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

// dialInterval is the polling interval for the socket of a new process. It takes 20 to 50 ms to appear.
const dialInterval = 2 * time.Millisecond

// Spawn starts a process that has to listen on the socket, and returns a connection to it. The process outlives this
// one. It has a session of its own and inherits no files: the go command waits until the output of a test is closed by
// all processes. Its own output is written to the log. The caller holds the lock.
func (p Dir) Spawn(ctx context.Context, cmd *exec.Cmd, log string) (*net.UnixConn, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("making the log of a background process: %w", err)
	}
	defer func() { _ = file.Close() }()
	cmd.Stdout = file
	cmd.Stderr = file
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a background process: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // reaps the child, as long as this process lives
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
