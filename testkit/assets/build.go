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
	// binary is the name of the executable, and of the folder of the module: see controlplane/main.go.txt.
	binary string
	// title names the product in messages.
	title string
	// programs are the names that the executable runs by.
	programs []string
	// more are further executables, in folders of the module of these names.
	more []string
	// prefix begins the names of the cache's folders.
	prefix string
	// duration says how long the first build takes.
	duration string
	// downloads reports whether the programs can be downloaded.
	downloads bool
	// sources has the folder of the module. Its file names keep it from being a module in this repository, because go:embed
	// does not include other modules.
	sources embed.FS
}

var (
	//go:embed controlplane/*.txt
	controlPlaneSources embed.FS
	//go:embed nodes/*.txt nodes/*/*.go
	nodeSources embed.FS

	controlPlane = &product{
		binary: "controlplane", title: "the control plane", prefix: "", duration: "8 to 10 minutes", downloads: true,
		programs: programs, sources: controlPlaneSources,
	}
	nodes = &product{
		binary: spec.Program, title: "the programs of nodes", prefix: "nodes-", duration: "about 8 minutes",
		programs: nodePrograms, more: []string{spec.Pause}, sources: nodeSources,
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
	for name, data := range p.moduleFiles() {
		_, _ = fmt.Fprintf(h, "%s %d\n%s\n", name, len(data), data)
	}
	_, _ = fmt.Fprintln(h, runtime.Version(), buildFlags())
	const enough = 6
	return hex.EncodeToString(h.Sum(nil)[:enough])
}

// moduleFiles yields the files of the module to build, in a fixed order, with slashes in their names. It leaves out tests.
func (p *product) moduleFiles() func(yield func(name string, data []byte) bool) {
	return func(yield func(string, []byte) bool) {
		err := fs.WalkDir(p.sources, p.binary, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			data, err := p.sources.ReadFile(file)
			if err != nil {
				return err
			}
			if !yield(strings.TrimSuffix(strings.TrimPrefix(file, p.binary+"/"), ".txt"), data) {
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
func (p *product) requiredModules() int {
	n := 0
	for name, data := range p.moduleFiles() {
		if name == "go.mod" {
			n = strings.Count(string(data), "\n\t") - strings.Count(string(data), " => ")
		}
	}
	return n
}

func (p *product) writeModule(dir string) error {
	for name, data := range p.moduleFiles() {
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
	if !supported(runtime.GOOS) {
		return Set{}, skip("%s of Kubernetes does not run on %s; use linux or darwin", f.product.title, runtime.GOOS)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return Set{}, skip("there is no Go toolchain on the PATH; install Go 1.26, or name a folder with %s in %s",
			strings.Join(f.required, ", "), EnvDir)
	}
	dir := f.buildDir()
	return f.exclusively(ctx, dir, func(temp string) error {
		f.report.notice("building %s of Kubernetes %s from source; the first time this takes %s on 2 cores, and can be "+
			"interrupted; the result is kept in %s", f.product.title, KubernetesVersion, f.product.duration, dir)
		b := builder{product: f.product, goTool: goTool, temp: temp, report: f.report}
		if err := b.run(ctx); err != nil {
			return err
		}
		programsOf := map[string]string{}
		for _, program := range f.product.programs {
			programsOf[program] = f.product.binary
			if slices.Contains(f.product.more, program) {
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
	source := filepath.Join(b.temp, "source")
	if err := b.product.writeModule(source); err != nil {
		return withAdvice(err, b.temp)
	}
	for _, dir := range []string{"out", "tmp"} {
		if err := os.Mkdir(filepath.Join(b.temp, dir), 0o750); err != nil {
			return fmt.Errorf("making a folder for the build: %w", withAdvice(err, b.temp))
		}
	}
	packages, mainPackage, err := b.list(ctx, source)
	if err != nil {
		return err
	}
	return b.compile(ctx, source, packages, mainPackage)
}

// list downloads modules that the module cache lacks and returns the number of packages to compile.
func (b *builder) list(ctx context.Context, source string) (packages int, mainPackage string, err error) {
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
			b.report.renamePhase("downloading modules", b.product.requiredModules())
		}
		b.report.count(modules)
	}
	c.stdout = func(line string) { packages, mainPackage = packages+1, line }
	if err := c.run(ctx); err != nil {
		return 0, "", err
	}
	return packages, mainPackage, nil
}

func (b *builder) compile(ctx context.Context, source string, packages int, mainPackage string) error {
	stop := b.report.startPhase("compiling packages, then linking", packages)
	defer stop()
	args := append([]string{"build", "-v"}, buildFlags()...)
	args = append(args, "-o", filepath.Join(b.temp, "out")+string(filepath.Separator), ".") // named after the module
	for _, name := range b.product.more {
		args = append(args, "./"+name)
	}
	c := b.command(args...)
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
