package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// endInterval is how often the end of a process is looked for.
const endInterval = 2 * time.Millisecond

// ErrNoProcess says that no process has that pid.
var ErrNoProcess = errors.New("no such process")

// An ID is one process for ever: pids are reused, a pid together with a start time is not.
type ID struct {
	PID int `json:"pid"`
	// Start is when the process began, in whatever form the system reports it. Only equality matters.
	Start string `json:"start"`
}

// Self identifies the calling process.
func Self() (ID, error) { return Identify(os.Getpid()) }

// Identify returns the identity of the process that has this pid now, or ErrNoProcess. A zombie counts as gone.
func Identify(pid int) (ID, error) {
	info, err := inspect(pid)
	if err != nil {
		return ID{}, fmt.Errorf("inspecting pid %d: %w", pid, err)
	}
	return ID{PID: pid, Start: info.start}, nil
}

// Command returns the name of the program that runs under this pid, without its folder.
func Command(pid int) (string, error) {
	info, err := inspect(pid)
	if err != nil {
		return "", fmt.Errorf("inspecting pid %d: %w", pid, err)
	}
	return info.command, nil
}

// Alive says whether this very process still runs.
func (id ID) Alive() bool {
	if id.PID <= 0 || id.Start == "" {
		return false
	}
	now, err := Identify(id.PID)
	return err == nil && now == id
}

// Ending says whether this very process still runs and will not for long, because it has been killed: on a busy machine it
// may take a while until it has lost all it holds. False says nothing where the system does not tell.
func (id ID) Ending() bool { return id.Alive() && isEnding(id.PID) }

// WaitEnd returns when this very process has ended, or ctx has.
func (id ID) WaitEnd(ctx context.Context) error {
	for id.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of pid %d: %w", id.PID, ctx.Err())
		case <-time.After(endInterval):
		}
	}
	return nil
}

// KillGroup ends the process and the group it leads, if the pid still belongs to this very process, and waits up to
// timeout until it is gone.
func (id ID) KillGroup(timeout time.Duration) error {
	if !id.Alive() {
		return nil
	}
	if err := syscall.Kill(-id.PID, syscall.SIGKILL); err != nil {
		// Not the leader of a group.
		if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing pid %d: %w", id.PID, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return id.WaitEnd(ctx)
}

// info is what the system tells about a process.
type info struct {
	start   string
	command string
}
