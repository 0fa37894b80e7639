package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// kubectl runs the kubectl of the control plane's version.
type kubectl struct {
	set assets.Set
	dir string // of kubeconfigs
	// conversion serves Operator.Conversion. It may be nil.
	conversion *httptest.Server
}

func newKubectl(ctx context.Context) (*kubectl, error) {
	need := append(cluster.Programs(cluster.Workloads), assets.Kubectl)
	set, err := assets.Find(ctx, assets.Options{Programs: need, Progress: assets.Print(os.Stderr)})
	if err != nil {
		return nil, fmt.Errorf("finding kubectl and a control plane: %w", err)
	}
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return nil, fmt.Errorf("making a folder for kubeconfigs: %w", err)
	}
	return &kubectl{set: set, dir: dir}, nil
}

func (k *kubectl) close() { _ = os.RemoveAll(k.dir) }

// kubeconfig writes a kubeconfig for an API server and returns its name.
func (k *kubectl) kubeconfig(cfg *rest.Config) (string, error) {
	file, err := os.CreateTemp(k.dir, "kubeconfig")
	if err != nil {
		return "", fmt.Errorf("making a kubeconfig: %w", err)
	}
	data, err := cluster.Kubeconfig(cfg)
	if err == nil {
		_, err = file.Write(data)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return file.Name(), nil
}

// run returns the output of kubectl. A warning is an error.
func (k *kubectl) run(ctx context.Context, kubeconfig string, args ...string) (string, error) {
	out, warnings, err := k.runWarned(ctx, kubeconfig, args...)
	if err == nil && warnings != "" {
		err = fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), warnings)
	}
	return out, err
}

// runWarned returns the output of kubectl and its warnings.
func (k *kubectl) runWarned(ctx context.Context, kubeconfig string, args ...string) (_, warnings string, err error) {
	cmd := exec.CommandContext(ctx, k.set.Path(assets.Kubectl), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var out, stderr bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	err = cmd.Run()
	message := strings.TrimSpace(stderr.String())
	if err != nil {
		return out.String(), "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, message)
	}
	return out.String(), message, nil
}

// render returns the objects of an overlay.
func (k *kubectl) render(ctx context.Context, overlay Overlay) (*manifests, error) {
	objects, err := k.kustomize(ctx, overlay.Dir)
	if err != nil {
		return nil, err
	}
	return newManifests(overlay, objects)
}

// kustomize returns the objects of a kustomization.
func (k *kubectl) kustomize(ctx context.Context, dir string) (objects []unstructured.Unstructured, err error) {
	text, err := k.run(ctx, filepath.Join(k.dir, "none"), "kustomize", dir)
	if err != nil {
		return nil, err
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", dir, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// samples writes the objects of a kustomization in versions that the overlay serves, and returns the name of the file.
func (k *kubectl) samples(ctx context.Context, m *manifests, dir string) (string, error) {
	objects, err := k.kustomize(ctx, dir)
	if err != nil {
		return "", err
	}
	served := []any{}
	for i := range objects {
		if m.serves(&objects[i]) {
			served = append(served, objects[i].Object)
		}
	}
	return k.write("samples.json", served)
}

// write writes objects into a file that kubectl reads, and returns its name.
func (k *kubectl) write(name string, objects []any) (string, error) {
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", name, err)
	}
	file := filepath.Join(k.dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return file, nil
}
