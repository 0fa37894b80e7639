package assets

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// lockInterval is the polling interval for the lock of another process.
const lockInterval = 200 * time.Millisecond

// A product is a module whose single executable contains several programs.
type product struct {
	// binary is the name of the executable that contains most programs: see controlplane/main.go.txt.
	binary string
	// title names the product in messages, and article is what comes before it at its first mention.
	article, title string
	verb           string // "is" or "are"
	// programs are the names that the executable runs by.
	programs []string
	// alone are the programs with an executable of their own.
	alone []string
	// modules are what is built.
	modules []module
	// prefix begins the names of the cache's folders.
	prefix string
	// duration says how long the first build takes.
	duration string
	// systems are the operating systems that the programs run on.
	systems []string
	// downloads reports whether the programs can be downloaded.
	downloads bool
	// sources has the folders of the modules. Their file names keep them from being modules in this repository: embedding
	// leaves out other modules.
	sources embed.FS
}

// A module is a folder of sources, with the packages of its executables.
type module struct {
	dir         string
	executables []executable
}

// An executable is a package of a module, such as ".", and the name of what is built of it.
type executable struct{ name, pkg string }

var (
	//go:embed controlplane/*.txt
	controlPlaneSources embed.FS
	//go:embed nodes/*.txt nodes/*/*.go nodes/*/*.yaml nodes/volume/sidecars/*.txt nodes/ingress/*.txt nodes/metrics/*.txt
	nodeSources embed.FS

	controlPlane = &product{
		binary: "controlplane", article: "a", title: "control plane", verb: "is", duration: "8 to 10 minutes",
		downloads: true, systems: []string{"linux", "darwin"},
		programs: programs, sources: controlPlaneSources,
		modules: []module{{dir: "controlplane", executables: []executable{{"controlplane", "."}}}},
	}
	nodes = &product{
		binary: spec.Program, article: "the", title: "programs of nodes", verb: "are", prefix: "nodes-",
		duration: "about 3 minutes after a build of the control plane, or else 10,", systems: []string{"linux"},
		programs: nodePrograms, alone: []string{spec.Pause, spec.Sidecars, spec.Ingress, spec.Metrics}, sources: nodeSources,
		modules: []module{
			{dir: "nodes", executables: []executable{{spec.Program, "."}, {spec.Pause, "./pause"}}},
			{dir: "nodes/volume/sidecars", executables: []executable{{spec.Sidecars, "."}}},
			{dir: "nodes/ingress", executables: []executable{{spec.Ingress, "."}}},
			{dir: "nodes/metrics", executables: []executable{{spec.Metrics, "."}}},
		},
	}
)

// buildFlags returns the same flags for every user, so that the cache can be shared. Only linking differs from a plain go
// build: packages that a project also uses, in the same versions, are compiled once.
func buildFlags() []string {
	const version = "k8s.io/component-base/version"
	parts := strings.Split(strings.TrimPrefix(KubernetesVersion, "v"), ".")
	ldflags := []string{
		"-s", "-w",
		"-X", version + ".gitVersion=" + KubernetesVersion,
		"-X", version + ".gitMajor=" + parts[0],
		"-X", version + ".gitMinor=" + parts[1],
		"-X", version + ".gitCommit=",
	}
	return []string{"-buildvcs=false", "-ldflags", strings.Join(ldflags, " ")}
}

// minorVersion returns KubernetesVersion without the patch.
func minorVersion() string {
	return KubernetesVersion[:strings.LastIndexByte(KubernetesVersion, '.')]
}

// sourceDigest identifies the sources and the toolchain of a build.
func (p *product) sourceDigest() string {
	h := sha256.New()
	for _, m := range p.modules {
		for name, data := range p.files(m) {
			_, _ = fmt.Fprintf(h, "%s %d\n%s\n", name, len(data), data)
		}
	}
	_, _ = fmt.Fprintln(h, runtime.Version(), buildFlags())
	const enough = 6
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

// files yields the files of a module, in a fixed order, with slashes in their names. It leaves out tests, and other modules.
func (p *product) files(m module) func(yield func(name string, data []byte) bool) {
	other := func(dir string) bool {
		return dir != m.dir && slices.ContainsFunc(p.modules, func(m module) bool { return m.dir == dir })
	}
	return func(yield func(string, []byte) bool) {
		err := fs.WalkDir(p.sources, m.dir, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && other(file):
				return fs.SkipDir
			case entry.IsDir() || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			data, err := p.sources.ReadFile(file)
			if err != nil {
				return err
			}
			if !yield(strings.TrimSuffix(strings.TrimPrefix(file, m.dir+"/"), ".txt"), data) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			panic(err) // they are part of this program
		}
	}
}

// requiredModules returns the maximum number of modules to download.
func (p *product) requiredModules(m module) int {
	n := 0
	for name, data := range p.files(m) {
		if name == "go.mod" {
			n = strings.Count(string(data), "\n\t") - strings.Count(string(data), " => ")
		}
	}
	return n
}

// write writes the files of a module to a folder.
func (p *product) write(m module, dir string) error {
	for name, data := range p.files(m) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return fmt.Errorf("making a folder for the sources: %w", err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return fmt.Errorf("writing the sources: %w", err)
		}
	}
	return nil
}

// fromBuild builds the programs with the Go toolchain of the user.
func (f *finder) fromBuild(ctx context.Context) (Set, error) {
	if !slices.Contains(f.product.systems, runtime.GOOS) {
		return Set{}, skip("the %s of Kubernetes cannot run on %s; use %s",
			f.product.title, runtime.GOOS, strings.Join(f.product.systems, " or "))
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return Set{}, skip("there is no Go toolchain on the PATH; install Go 1.26, or name a folder with %s in %s",
			strings.Join(f.required, ", "), EnvDir)
	}
	dir := f.buildDir()
	return f.exclusively(ctx, dir, func(temp string) error {
		f.report.notice("building the %s of Kubernetes %s from source; the first time this takes %s on 2 cores, and can be "+
			"interrupted; the result is kept in %s", f.product.title, KubernetesVersion, f.product.duration, dir)
		b := builder{product: f.product, goTool: goTool, temp: temp, report: f.report}
		if err := b.run(ctx); err != nil {
			return err
		}
		programsOf := map[string]string{}
		for _, program := range f.product.programs {
			programsOf[program] = f.product.binary
			if slices.Contains(f.product.alone, program) {
				programsOf[program] = program
			}
		}
		return withAdvice(store(filepath.Join(temp, "out"), dir, "built from source", programsOf), f.cacheDir)
	})
}

// builder is one build.
type builder struct {
	product *product
	goTool  string
	temp    string
	report  *reporter
}

func (b *builder) run(ctx context.Context) error {
	for _, dir := range []string{"out", "tmp"} {
		if err := os.Mkdir(filepath.Join(b.temp, dir), 0o750); err != nil {
			return fmt.Errorf("making a folder for the build: %w", withAdvice(err, b.temp))
		}
	}
	for i, m := range b.product.modules {
		source := filepath.Join(b.temp, fmt.Sprintf("source%d", i))
		if err := b.product.write(m, source); err != nil {
			return withAdvice(err, b.temp)
		}
		packages, mainPackage, err := b.list(ctx, m, source)
		if err != nil {
			return err
		}
		for _, e := range m.executables {
			if err := b.compile(ctx, e, source, packages, mainPackage); err != nil {
				return err
			}
		}
	}
	return nil
}

// list downloads modules that the module cache lacks and returns the number of packages to compile.
func (b *builder) list(
	ctx context.Context, m module, source string,
) (packages int, mainPackage string, err error) {
	stop := b.report.startPhase("resolving modules", 0)
	defer stop()
	modules := 0
	c := b.command("list", "-deps", "-f", "{{.ImportPath}}", ".")
	c.dir = source
	c.stderr = func(line string) {
		if !strings.HasPrefix(line, "go: downloading ") {
			return
		}
		if modules++; modules == 1 {
			b.report.renamePhase("downloading modules", b.product.requiredModules(m))
		}
		b.report.count(modules)
	}
	c.stdout = func(line string) { packages, mainPackage = packages+1, line }
	if err := c.run(ctx); err != nil {
		return 0, "", err
	}
	return packages, mainPackage, nil
}

func (b *builder) compile(ctx context.Context, e executable, source string, packages int, mainPackage string) error {
	stop := b.report.startPhase("compiling packages, then linking", packages)
	defer stop()
	args := append([]string{"build", "-v"}, buildFlags()...)
	c := b.command(append(args, "-o", filepath.Join(b.temp, "out", e.name), e.pkg)...)
	c.dir = source
	compiled := 0
	c.stderr = func(line string) {
		if compiled++; line == mainPackage { // the last package; linking follows without output and takes long
			b.report.renamePhase("linking", 0)
			return
		}
		b.report.count(compiled)
	}
	return c.run(ctx)
}

// command runs the Go tool with an environment that neutralizes user settings that could break the build. The user's
// choice of module cache, build cache and module proxy stays in effect.
func (b *builder) command(args ...string) *command {
	return &command{name: b.goTool, args: args, env: append(os.Environ(),
		"GOWORK=off",
		"GOFLAGS=-mod=readonly", // an empty value would enable `go env -w GOFLAGS=...`
		"GO111MODULE=on",
		"GOTOOLCHAIN=auto", // the local toolchain if it is new enough, overriding the user's choice
		"CGO_ENABLED=0",
		"GOOS="+runtime.GOOS,
		"GOARCH="+runtime.GOARCH,
		"GOEXPERIMENT=",
		"GOTMPDIR="+filepath.Join(b.temp, "tmp"), // removed with the other files if the build is killed
	)}
}

// withAdvice adds advice to errors of a full or read-only file system.
func withAdvice(err error, dir string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s is full (%w); %s", dir, err, spaceRemedy)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s cannot be written to (%w); set XDG_CACHE_HOME to a folder that can", dir, err)
	default:
		return err
	}
}

var spaceRemedy = "a build needs about " + strconv.Itoa(gigabytes) + " GB, most of them in Go's build and module caches"

// gigabytes is the disk space of the first build: 1.3 GB of modules, 1.9 GB of compiled packages, and the binary.
const gigabytes = 4
