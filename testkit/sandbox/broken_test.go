package sandbox_test

import (
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// writeBroken writes an operator that can be loaded but does not compile.
func writeBroken(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module example.com/broken\n", "cmd/main.go": "package main\n\nfunc main() { nowhere() }\n",
		"config/crd/x.yaml":     "{kind: CustomResourceDefinition, metadata: {name: x}}",
		"config/rbac/x.yaml":    "{kind: ServiceAccount, metadata: {name: x}}",
		"config/manager/x.yaml": strings.NewReplacer("NS", "ns", `"c"`, `"c", "image": "broken"`).Replace(deployment),
	} {
		write(t, filepath.Join(dir, file), text)
	}
	return dir
}

// A compile error is visible in the pod, and disappears by itself once the program compiles.
func compileError(b *emptyCluster) {
	d := b.deploy("broken", func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Image = "broken:v1"
		c.ReadinessProbe = nil
	})
	var waiting *corev1.ContainerStateWaiting
	until(b.T, "the pod reports the error", func() bool {
		pods := b.pods("broken")
		if len(pods) == 0 || len(pods[0].Status.ContainerStatuses) == 0 {
			return false
		}
		waiting = pods[0].Status.ContainerStatuses[0].State.Waiting
		return waiting != nil && waiting.Reason == "CreateContainerError"
	})
	if !strings.Contains(waiting.Message, "undefined: nowhere") || !b.d.has("cannot start: building operator ") {
		b.Errorf("the pod reports %q", waiting.Message)
	}
	write(b.T, filepath.Join(b.broken, "cmd/main.go"), "package main\n\nimport \"os/signal\"\nimport \"os\"\n\n"+
		"func main() {\n\tend := make(chan os.Signal, 1)\n\tsignal.Notify(end)\n\t<-end\n}\n")
	b.available(d, 1)
}

func TestPodsProjectErrors(t *testing.T) {
	t.Parallel()
	without, same := load(t), load(t)
	without.Deployment.Spec.Template.Spec.Containers[0].Image = ""
	same.Name = "same"
	same.Deployment.Spec.Template.Spec.Containers[0].Image = "example.com/widget:v2"
	for want, projects := range map[string][]*sandbox.Project{
		"running pods: there is no project":                                      nil,
		"running pods: the Deployment of operator widget has no image":           {without},
		"running pods: operators widget and same both have the image \"widget\"": {load(t), same},
	} {
		if _, err := sandbox.RunPods(t.Context(), nil, projects, sandbox.PodsOptions{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
