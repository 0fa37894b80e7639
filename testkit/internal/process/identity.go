package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// endInterval is the polling interval for the end of a process.
const endInterval = 2 * time.Millisecond

// ErrNoProcess reports that no process has the pid.
var ErrNoProcess = errors.New("no such process")

// An ID identifies one process permanently: pids are reused, a pid with a start time is not.
type ID struct {
	PID int `json:"pid"`
	// Start is the start time, in a system-specific form. Only equality is meaningful.
	Start string `json:"start"`
}

// Self identifies the calling process.
func Self() (ID, error) { return Identify(os.Getpid()) }

// Identify returns the identity of the process with this pid, or ErrNoProcess. A zombie counts as ended.
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

// Alive reports whether this process still runs.
func (id ID) Alive() bool {
	if id.PID <= 0 || id.Start == "" {
		return false
	}
	now, err := Identify(id.PID)
	return err == nil && now == id
}

// Ending reports whether this process runs but has been killed: on a busy machine its end may take a while. Systems
// without that information report false.
func (id ID) Ending() bool { return id.Alive() && isEnding(id.PID) }

// WaitEnd returns when this process has ended, or with ctx's error.
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

// KillGroup kills the process and the group that it leads, if the pid still belongs to it, and waits up to timeout for
// its end.
func (id ID) KillGroup(timeout time.Duration) error {
	if !id.Alive() {
		return nil
	}
	if err := syscall.Kill(-id.PID, syscall.SIGKILL); err != nil {
		// It does not lead a group.
		if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing pid %d: %w", id.PID, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return id.WaitEnd(ctx)
}

// info is the system's information about a process.
type info struct {
	start   string
	command string
}
