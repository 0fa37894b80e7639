package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Positions in /proc/<pid>/stat after the closing parenthesis of the command: see proc_pid_stat(5).
const (
	statState     = 0
	statStartTime = 19
)

func inspect(pid int) (info, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return info{}, ErrNoProcess
		}
		return info{}, fmt.Errorf("reading its state: %w", err)
	}
	// The command may hold spaces and parentheses, so the fields are counted from its last parenthesis.
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
