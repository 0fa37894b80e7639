package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// A mode has a name, so that a table of modes gives a subtest for each way in which pods fail.
func ExampleMode() {
	for _, mode := range []kubelet.Mode{
		kubelet.Failed, kubelet.FailedWith(137), kubelet.ExitedWith(3), kubelet.CrashLoop, kubelet.Evicted,
	} {
		// t.Run(mode.String(), func(t *testing.T) { k.Kubelet.Fail("app=web", mode) })
		fmt.Println(mode)
	}
	// Output:
	// Failed(1)
	// Failed(137)
	// ExitedWith(3)
	// CrashLoop
	// Evict
}

// A test of topology spread gives simulated nodes a zone before it creates them.
func ExampleNewNode() {
	for i, zone := range []string{"a", "a", "b"} {
		node := kubelet.NewNode(fmt.Sprintf("node-%d", i))
		node.Labels[corev1.LabelTopologyZone] = zone
		// k.Client.Create(ctx, node)
		fmt.Println(node.Name, node.Labels[corev1.LabelOSStable], node.Labels[corev1.LabelTopologyZone])
	}
	// Output:
	// node-0 linux a
	// node-1 linux a
	// node-2 linux b
}

// A program that starts kwok itself, without package cluster, writes the stages and passes them as arguments.
func ExampleArgs() {
	dir, err := os.MkdirTemp("", "kwok")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stages, err := kubelet.WriteStages(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	args := kubelet.Args(filepath.Join(dir, "kubeconfig"), stages)
	// cmd := exec.CommandContext(ctx, set.Path(assets.Kwok), args...)
	for _, arg := range args {
		if filepath.Dir(arg) != "--config="+dir && filepath.Dir(arg) != "--kubeconfig="+dir {
			fmt.Println(arg)
		}
	}
	// Output:
	// --manage-nodes-with-label-selector=!testkit.homeostat.dev/lost
	// --lost-label=testkit.homeostat.dev/lost
	// --hold-annotation-prefix=testkit.homeostat.dev/hold-
	// --cidr=198.18.0.0/16
	// --node-ip=198.19.0.1
}
