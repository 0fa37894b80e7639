package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/gc"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/runname"
)

const (
	// exploredLabel marks the namespaces of explorations.
	exploredLabel = "testkit.homeostat.dev/explored"
	// exploredBy is the annotation with the process that created the namespace.
	exploredBy = "testkit.homeostat.dev/explored-by"
)

// A creator is the process that created a namespace. The namespaces of a killed process are deleted by the next one on
// the same machine.
type creator struct {
	Host string `json:"host"`
	process.ID
}

func newCreator() (creator, error) {
	host, err := os.Hostname()
	if err != nil {
		return creator{}, fmt.Errorf("finding the name of this machine: %w", err)
	}
	id, err := process.Self()
	if err != nil {
		return creator{}, fmt.Errorf("finding the number of this process: %w", err)
	}
	return creator{host, id}, nil
}

func (o creator) metadata() (metav1.ObjectMeta, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return metav1.ObjectMeta{}, fmt.Errorf("encoding the owner of a namespace: %w", err)
	}
	return metav1.ObjectMeta{
		Labels: map[string]string{exploredLabel: "true"}, Annotations: map[string]string{exploredBy: string(data)},
	}, nil
}

// namespace creates a namespace.
func (o creator) namespace(ctx context.Context, c kube.Client) (*corev1.Namespace, error) {
	meta, err := o.metadata()
	if err != nil {
		return nil, err
	}
	meta.Name = runname.New("explore-rehearsal")
	namespace := &corev1.Namespace{ObjectMeta: meta}
	if err := c.Create(ctx, namespace); err != nil {
		return nil, fmt.Errorf("making a namespace: %w", err)
	}
	return namespace, nil
}

// mark records the creator of an existing namespace.
func (o creator) mark(ctx context.Context, c kube.Client, name string) error {
	meta, err := o.metadata()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": meta.Labels, "annotations": meta.Annotations},
	})
	if err != nil {
		return fmt.Errorf("encoding the owner of a namespace: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Patch(ctx, namespace, kube.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("marking the namespace %s: %w", name, err)
	}
	return nil
}

// sweep deletes the namespaces of killed processes.
func (o creator) sweep(ctx context.Context, c kube.Client) error {
	var all corev1.NamespaceList
	if err := c.List(ctx, &all); err != nil {
		return fmt.Errorf("looking for what a killed exploration left behind: %w", err)
	}
	for i := range all.Items {
		var other creator
		namespace := &all.Items[i]
		if json.Unmarshal([]byte(namespace.Annotations[exploredBy]), &other) != nil || other.Host != o.Host || other.Alive() {
			continue
		}
		for j := range all.Items { // the further namespaces of the run as well
			if strings.Contains(all.Items[j].Name, namespace.Name) {
				if err := deleteNamespace(ctx, c, &all.Items[j]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// deleteNamespace deletes a namespace with everything in it. It removes finalizers, because the operator has ended.
func deleteNamespace(ctx context.Context, c kube.Client, namespace *corev1.Namespace) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, gc.AbandonAnnotation)
	err := c.Patch(ctx, namespace, kube.RawPatch(types.MergePatchType, []byte(patch)))
	if err == nil {
		err = c.Delete(ctx, namespace)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the namespace %s: %w", namespace.Name, err)
	}
	return nil
}
