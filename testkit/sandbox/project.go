package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
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
	// Package is the import path of the operator's program.
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
	const programsOnly = `{{if eq .Name "main"}}{{.Dir}} {{.ImportPath}}{{end}}`
	cmd := exec.CommandContext(ctx, "go", "list", "-find", "-f", programsOnly, "./...")
	cmd.Dir = p.Dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("looking for its program: %w", withStderr(err))
	}
	programs := map[string]string{} // import path by folder
	var only string
	for line := range strings.Lines(string(out)) {
		if dir, path, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			programs[dir] = path
			only = path
		}
	}
	if len(programs) == 1 {
		return only, nil
	}
	for _, usual := range []string{"cmd", ".", "cmd/manager", "cmd/" + p.Name, "cmd/controller", "cmd/operator"} {
		if path, ok := programs[filepath.Join(p.Dir, usual)]; ok {
			return path, nil
		}
	}
	if len(programs) == 0 {
		return "", errors.New("it has no Go program: a package main, usually in cmd")
	}
	return "", fmt.Errorf("it has %d Go programs and none of them is in cmd", len(programs))
}

// Build compiles the operator's program and returns its file. The file is kept between calls: without changes the go
// command does not link it again. The program is built without C, as released images are, unless CGO_ENABLED is set.
func (p *Project) Build(ctx context.Context) (string, error) { return p.build(ctx, "") }

// buildForImage is Build for the program of an image. The linker omits debug information, as it does for released images:
// this information is a third of the file, and each node that runs the operator pulls and unpacks the file.
func (p *Project) buildForImage(ctx context.Context) (string, error) {
	return p.build(ctx, "image", "-ldflags=-s -w")
}

func (p *Project) build(ctx context.Context, folder string, flags ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("building operator %s: %w", p.Name, err)
	}
	sum := sha256.Sum256([]byte(p.Dir))
	file := filepath.Join(cache, "homeostat", "operators", hex.EncodeToString(sum[:6]), folder, p.Name)
	if err := runGo(ctx, p.Dir, slices.Concat([]string{"build", "-o", file}, flags, []string{p.Package})...); err != nil {
		return "", fmt.Errorf("building operator %s: %w", p.Name, err)
	}
	return file, nil
}

// compile compiles the packages of all programs with one go command for each workspace, and links none. Go commands that
// run in parallel would each compile the packages that they have in common. Errors are left to [Project.Build], which
// names the operator.
func compile(ctx context.Context, projects []*Project) {
	packages := map[string][]string{}
	dirs := map[string]string{}
	for _, p := range projects {
		workspace, err := exec.CommandContext(ctx, "go", "-C", p.Dir, "env", "GOWORK").Output()
		if file := strings.TrimSpace(string(workspace)); err == nil && filepath.IsAbs(file) {
			packages[file] = append(packages[file], p.Package)
			dirs[file] = p.Dir
		}
	}
	for file, paths := range packages {
		if len(paths) > 1 {
			_ = runGo(ctx, dirs[file], append([]string{"list", "-export", "-f", "{{.ImportPath}}"}, paths...)...)
		}
	}
}

// runGo runs the go command in a folder. A canceled context ends its compilers too, and removes their temporary files.
func runGo(ctx context.Context, dir string, args ...string) error {
	temporary, err := tempfolder.Make()
	if err != nil {
		return err
	}
	defer func() { _ = tempfolder.Remove(temporary) }()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOTMPDIR="+temporary)
	if os.Getenv("CGO_ENABLED") == "" {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if _, err := cmd.Output(); err != nil {
		return withStderr(err)
	}
	return nil
}

// withStderr adds the error output of the go command.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w:\n%s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
