package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
)

// A ProjectError reports a defect of an operator's folder. The caller has to fix it.
type ProjectError struct {
	Dir string
	Err error
}

// Error returns one sentence.
func (e *ProjectError) Error() string { return fmt.Sprintf("operator %s: %v", e.Dir, e.Err) }

// Unwrap returns the reason.
func (e *ProjectError) Unwrap() error { return e.Err }

// A Project is the source of an operator: a Go module, or a part of one, with manifests in the usual folders.
type Project struct {
	// Name is the name of the folder.
	Name string
	// Dir is the absolute path.
	Dir string
	// Package is the package of the operator's program, relative to Dir, such as ./cmd.
	Package string
	// Objects are the objects to install, without the Deployment: definitions, namespace, account, roles.
	Objects []*unstructured.Unstructured
	// Deployment is the operator's Deployment, for its configuration in the cluster.
	Deployment *appsv1.Deployment
	// Samples are sample objects. There may be none.
	Samples []*unstructured.Unstructured
	// RealNodeSamples are the samples that config/simulated-nodes leaves out, because their containers have to run.
	RealNodeSamples []*unstructured.Unstructured
	// SimulatedNodeSamples are the samples that config/real-nodes leaves out, because they need what nodes of one machine
	// lack, such as an image or a kind of volume.
	SimulatedNodeSamples []*unstructured.Unstructured
}

// Load reads the operator in a folder: config/default, or else config/crd, config/rbac and config/manager, with
// kustomize, and config/samples. Samples that config/simulated-nodes or config/real-nodes lacks, if
// it exists, are not for nodes of that kind.
// Errors are of type *ProjectError.
func Load(ctx context.Context, dir string) (*Project, error) {
	p, err := load(ctx, dir)
	if err != nil {
		return nil, &ProjectError{Dir: dir, Err: err}
	}
	return p, nil
}

func load(ctx context.Context, dir string) (*Project, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding the folder: %w", err)
	}
	if info, err := os.Stat(absolute); err != nil || !info.IsDir() {
		return nil, errors.New("there is no such folder")
	}
	p := &Project{Name: filepath.Base(absolute), Dir: absolute}
	objects, err := p.manifests()
	if err != nil {
		return nil, err
	}
	if err := p.sort(objects); err != nil {
		return nil, err
	}
	if err := p.loadSamples(); err != nil {
		return nil, err
	}
	p.Package, err = p.findMain(ctx)
	return p, err
}

// loadSamples reads config/samples, and compares it with config/simulated-nodes and config/real-nodes if these exist.
func (p *Project) loadSamples() (err error) {
	if all := filepath.Join(p.Dir, "config", "samples"); exists(all) {
		if p.Samples, err = render(all); err != nil {
			return err
		}
	}
	if p.RealNodeSamples, err = p.leftOutBy("simulated-nodes"); err != nil {
		return err
	}
	p.SimulatedNodeSamples, err = p.leftOutBy("real-nodes")
	return err
}

// leftOutBy returns the samples that a folder of config lacks, or none if there is no such folder.
func (p *Project) leftOutBy(folder string) ([]*unstructured.Unstructured, error) {
	dir := filepath.Join(p.Dir, "config", folder)
	if !exists(dir) {
		return nil, nil
	}
	kept, err := render(dir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(p.Samples), func(sample *unstructured.Unstructured) bool {
		return slices.ContainsFunc(kept, func(u *unstructured.Unstructured) bool { return idOf(u) == idOf(sample) })
	}), nil
}

// idOf identifies an object within the manifests of a project.
func idOf(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", u.GroupVersionKind().GroupKind(), u.GetNamespace(), u.GetName())
}

func (p *Project) manifests() ([]*unstructured.Unstructured, error) {
	config := filepath.Join(p.Dir, "config")
	if dir := filepath.Join(config, "default"); exists(dir) {
		return render(dir)
	}
	var objects []*unstructured.Unstructured
	for _, name := range []string{"crd", "rbac", "manager"} {
		dir := filepath.Join(config, name)
		if !exists(dir) {
			return nil, fmt.Errorf("it has neither config/default nor config/%s", name)
		}
		part, err := render(dir)
		if err != nil {
			return nil, err
		}
		objects = append(objects, part...)
	}
	return objects, nil
}

// sort separates the operator's Deployment from the objects to install.
func (p *Project) sort(objects []*unstructured.Unstructured) error {
	for _, u := range objects {
		if u.GetKind() != "Deployment" {
			p.Objects = append(p.Objects, u)
			continue
		}
		if p.Deployment != nil {
			return fmt.Errorf("its config has two Deployments, %s and %s; one has to be the operator",
				p.Deployment.Name, u.GetName())
		}
		p.Deployment = &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p.Deployment); err != nil {
			return fmt.Errorf("reading Deployment %s: %w", u.GetName(), err)
		}
	}
	switch {
	case p.Deployment == nil:
		return errors.New("its config has no Deployment, which says as which ServiceAccount the operator runs")
	case p.Deployment.Namespace == "":
		return fmt.Errorf("its Deployment %s has no namespace", p.Deployment.Name)
	case len(p.Deployment.Spec.Template.Spec.Containers) == 0:
		return fmt.Errorf("its Deployment %s has no container", p.Deployment.Name)
	}
	return nil
}

// account returns the name of the ServiceAccount that the operator runs as.
func (p *Project) account() string {
	if name := p.Deployment.Spec.Template.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

// render builds a folder with kustomize, or reads its files if it has no kustomization.
func render(dir string) ([]*unstructured.Unstructured, error) {
	isKustomize := slices.ContainsFunc([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"},
		func(name string) bool { return exists(filepath.Join(dir, name)) })
	if !isKustomize {
		return manifest.Read(dir)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", dir, err)
	}
	data, err := resources.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("building %s with kustomize: %w", dir, err)
	}
	return manifest.Decode(data)
}

// findMain returns the package of the operator's program: the only one in the folder, or the one in a usual place.
func (p *Project) findMain(ctx context.Context) (string, error) {
	programs, err := p.findPrograms(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("looking for its program: %w", err)
	case len(programs) == 0:
		return "", errors.New("it has no Go program: a package main, usually in cmd")
	case len(programs) == 1:
		return programs[0], nil
	}
	for _, usual := range []string{"cmd", ".", "cmd/manager", "cmd/" + p.Name, "cmd/controller", "cmd/operator"} {
		if pkg := "./" + filepath.Clean(usual); slices.Contains(programs, pkg) {
			return pkg, nil
		}
	}
	return "", fmt.Errorf("it has %d Go programs and none of them is in cmd", len(programs))
}

// findPrograms returns the packages main of the folder that the pattern ./... of the go command matches. The go command
// itself would load the whole workspace, which takes longer than all else that Load does.
func (p *Project) findPrograms(ctx context.Context) (programs []string, err error) {
	err = filepath.WalkDir(p.Dir, func(dir string, entry fs.DirEntry, err error) error {
		if err := cmp.Or(err, ctx.Err()); err != nil || !entry.IsDir() {
			return err
		}
		if dir != p.Dir && !isPackageFolder(dir, entry.Name()) {
			return filepath.SkipDir
		}
		pkg, err := build.ImportDir(dir, 0)
		if _, noGo := errors.AsType[*build.NoGoError](err); noGo {
			return nil
		}
		if err == nil && pkg.IsCommand() {
			relative, err := filepath.Rel(p.Dir, dir)
			programs = append(programs, "./"+relative)
			return err
		}
		return err
	})
	return programs, err
}

// isPackageFolder reports whether the pattern ./... of the go command matches packages in a folder below its own.
func isPackageFolder(dir, name string) bool {
	return !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") && name != "testdata" && name != "vendor" &&
		!exists(filepath.Join(dir, "go.mod"))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
