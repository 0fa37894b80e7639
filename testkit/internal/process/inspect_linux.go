package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Positions in /proc/<pid>/stat after the closing parenthesis of the command: see proc_pid_stat(5).
const (
	statState     = 0
	statFlags     = 6
	statStartTime = 19
)

// isEnding reports whether a process is exiting or has a pending SIGKILL.
func isEnding(pid int) bool {
	stat, statErr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	status, statusErr := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return statErr == nil && isExiting(string(stat)) || statusErr == nil && isKilled(string(status))
}

// isExiting reports whether the kernel flags contain PF_EXITING.
func isExiting(stat string) bool {
	const exiting = 0x4
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statFlags {
		return false
	}
	flags, err := strconv.ParseUint(fields[statFlags], 10, 64)
	return err == nil && flags&exiting != 0
}

// isKilled reports whether SIGKILL is pending.
func isKilled(status string) bool {
	const kill = 1 << (syscall.SIGKILL - 1)
	for line := range strings.Lines(status) {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if signals, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err == nil && signals&kill != 0 {
			return true
		}
	}
	return false
}

func inspect(pid int) (info, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return info{}, ErrNoProcess
		}
		return info{}, fmt.Errorf("reading its state: %w", err)
	}
	// The command may contain spaces and parentheses, so the fields are counted from its last parenthesis.
	line := string(data)
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return info{}, fmt.Errorf("reading its state: unexpected form %q", line)
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) <= statStartTime {
		return info{}, fmt.Errorf("reading its state: unexpected form %q", line)
	}
	if state := fields[statState]; state == "Z" || state == "X" {
		return info{}, ErrNoProcess
	}
	return info{start: fields[statStartTime], command: line[open+1 : end]}, nil
}
