package cli

import (
	"path/filepath"
	"slices"
	"strings"
)

// scripts are the extensions of files that an interpreter runs.
var scripts = []string{".py", ".js", ".mjs", ".ts", ".rb", ".sh", ".pl", ".jar"}

// operatorName returns the name of the script or the module that a command runs, or else that of its program.
func operatorName(command []string) string {
	for i, arg := range command {
		ext := filepath.Ext(arg)
		switch {
		case slices.Contains(scripts, ext) && !strings.HasPrefix(arg, "-"):
			return strings.TrimSuffix(filepath.Base(arg), ext)
		case arg == "-m" && i == 1 && len(command) > 2: // python3 -m module
			return command[2]
		}
	}
	return filepath.Base(command[0])
}
