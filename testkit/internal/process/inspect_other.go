//go:build !linux

package process

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// lstartFields is the number of words that `ps -o lstart` prints, for example "Fri Nov 20 12:33:01 2026".
const lstartFields = 5

// isEnding returns false: only Linux reports this state.
func isEnding(int) bool { return false }

func inspect(pid int) (info, error) {
	out, err := exec.Command("ps", "-o", "state=,lstart=,comm=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		// ps exits with 1 if there is no output.
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return info{}, ErrNoProcess
		}
		return info{}, fmt.Errorf("running ps: %w", err)
	}
	fields := strings.Fields(string(out))
	if len(fields) < lstartFields+2 {
		return info{}, fmt.Errorf("reading the output of ps: unexpected form %q", out)
	}
	if strings.HasPrefix(fields[0], "Z") {
		return info{}, ErrNoProcess
	}
	return info{
		start:   strings.Join(fields[1:1+lstartFields], " "),
		command: filepath.Base(strings.Join(fields[1+lstartFields:], " ")),
	}, nil
}
