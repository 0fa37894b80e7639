package kubelet

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// lostLabel marks a node without a kubelet.
	lostLabel = "testkit.homeostat.dev/lost"
	// holdPrefix begins the namespace annotations that hold pods back from being Ready. The rest of the name is
	// arbitrary; the value is a label selector.
	holdPrefix = "testkit.homeostat.dev/hold-"
)

// Addresses of pods and nodes are in a network reserved for benchmarks (RFC 2544), so that accidental traffic reaches
// no host.
const (
	podCIDR = "198.18.0.0/16"
	nodeIP  = "198.19.0.1"
)

//go:embed stages/*.yaml
var stages embed.FS

// WriteStages writes kwok's configuration of nodes and pods into a folder, which must exist, and returns the file
// names.
func WriteStages(dir string) ([]string, error) {
	entries, err := stages.ReadDir("stages")
	if err != nil {
		return nil, fmt.Errorf("listing the stages: %w", err)
	}
	files := make([]string, 0, len(entries))
	for _, entry := range entries {
		data, err := stages.ReadFile(path.Join("stages", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading a stage: %w", err)
		}
		file := filepath.Join(dir, entry.Name())
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return nil, fmt.Errorf("writing a stage: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// Args returns the arguments for the kwok program of package assets. The user of the kubeconfig needs all permissions
// on nodes, pods and leases, and read permission on namespaces. kwok listens on no port.
func Args(kubeconfig string, stageFiles []string) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--manage-nodes-with-label-selector=!" + lostLabel,
		"--lost-label=" + lostLabel,
		"--hold-annotation-prefix=" + holdPrefix,
		"--cidr=" + podCIDR,
		"--node-ip=" + nodeIP,
	}
	for _, file := range stageFiles {
		args = append(args, "--config="+file)
	}
	return args
}

// NewNode returns a node for kwok to simulate; create it with any client. It becomes Ready, loses its not-ready taint
// and has room for 10000 pods.
func NewNode(name string) *corev1.Node {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: runtime.GOARCH,
			},
		},
	}
}
