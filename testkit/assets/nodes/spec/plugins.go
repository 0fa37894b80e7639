package spec

import (
	"os"
	"path/filepath"
)

// NetworkPlugins returns the folder of the machine's network plugins, or "": distributions do not agree on it.
func NetworkPlugins() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir
		}
	}
	return ""
}
