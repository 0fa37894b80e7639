package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/homeostat-dev/homeostat/testkit/assets"
)

// machine describes the machine of a measurement.
type machine struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Processor   string `json:"processor"`
	Processors  int    `json:"processors"`
	MemoryBytes uint64 `json:"memoryBytes"`
	Go          string `json:"go"`
	Kubernetes  string `json:"kubernetes"`
}

func thisMachine() (machine, error) {
	m := machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Processors: runtime.NumCPU(), Go: runtime.Version(),
		Kubernetes: assets.KubernetesVersion,
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m, fmt.Errorf("looking at the machine, which has to be Linux: %w", err)
	}
	info, err := fs.Meminfo()
	if err != nil {
		return m, fmt.Errorf("looking at the machine: %w", err)
	}
	if info.MemTotalBytes != nil {
		m.MemoryBytes = *info.MemTotalBytes
	}
	m.Processor = processor()
	return m, nil
}

// processor returns the name of the first processor, or "" if it is unknown. It does not use procfs, whose function for it
// compiles on Linux only.
func processor() string {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (m machine) String() string {
	const gib = 1 << 30
	return fmt.Sprintf("%d x %s, %d GiB, %s/%s, %s, Kubernetes %s",
		m.Processors, m.Processor, m.MemoryBytes/gib, m.OS, m.Arch, m.Go, m.Kubernetes)
}
