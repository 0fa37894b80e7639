package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// KubernetesVersion is the version of all built or downloaded programs. Programs in KUBEBUILDER_ASSETS may have
// another.
const KubernetesVersion = "v1.37.2"

// The names of the programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	Kwok              = "kwok"
)

// programs lists all programs of a control plane.
var programs = []string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl, Kwok}

// nodePrograms lists all programs of real nodes.
var nodePrograms = []string{
	spec.Program, spec.Hub, spec.Kubelet, spec.KubeProxy, spec.CoreDNS, spec.Volume, spec.Sidecars, spec.Ingress, spec.Metrics,
	spec.Pause,
}

// Environment variables of the search.
const (
	// EnvDir names a folder with programs. controller-runtime's envtest uses the same variable.
	EnvDir = "KUBEBUILDER_ASSETS"
	// EnvSources lists the sources to search, in order, separated by commas.
	EnvSources = "TESTKIT_ASSETS"
)

// A Source is a place to obtain programs from.
type Source string

// The sources, in their default order.
const (
	Environment Source = "environment"
	Cache       Source = "cache"
	Download    Source = "download"
	Build       Source = "build"
)

var allSources = []Source{Environment, Cache, Download, Build}

// A Set is a folder with programs.
type Set struct {
	Dir string // absolute
	// Origin describes the origin of the programs in a few words, for people to read.
	Origin string
}

// Path returns the file name of a program. The file need not exist.
func (s Set) Path(program string) string { return filepath.Join(s.Dir, program) }

// Options configures Find.
type Options struct {
	// Programs lists the programs that the set must contain; empty means all of them.
	Programs []string
	// Sources are searched in this order; empty means the value of EnvSources, or all of them.
	Sources []Source
	// Progress receives reports, from one goroutine at a time; nil drops them. It is not called if the programs are
	// available at once. See Print.
	Progress func(Progress)
	// CacheDir is the folder for built or downloaded programs; empty means homeostat/assets in the user's cache folder.
	CacheDir string
	// Env looks up EnvDir and EnvSources; nil means os.Getenv.
	Env func(string) string
}

// Find returns a set with the needed programs from the first source that has all of them. Progress receives the reason
// for each skipped source, if the user may want to change it. If no source has the programs, the error names every
// reason. Several processes may call Find concurrently: one builds, the others wait. Canceling ctx ends the build. Only
// caches that speed up the next build remain.
func Find(ctx context.Context, o Options) (Set, error) { return controlPlane.find(ctx, o) }

// FindNodes is Find for the programs of real nodes. They are built, and not downloaded.
func FindNodes(ctx context.Context, o Options) (Set, error) { return nodes.find(ctx, o) }

func (p *product) find(ctx context.Context, o Options) (Set, error) {
	f, err := newFinder(p, o)
	if err != nil {
		return Set{}, fmt.Errorf("finding %s %s: %w", p.article, p.title, err)
	}
	set, err := f.find(ctx)
	f.report.end(p, set, err)
	if err != nil {
		return Set{}, fmt.Errorf("finding %s %s: %w", p.article, p.title, err)
	}
	return set, nil
}

// finder is one search.
type finder struct {
	product  *product
	required []string
	sources  []Source
	cacheDir string
	env      func(string) string
	report   *reporter

	indexURL     string        // of the downloads; empty means the default
	stallTimeout time.Duration // aborts a download without progress
}

func newFinder(p *product, o Options) (*finder, error) {
	f := &finder{
		product: p, required: o.Programs, sources: o.Sources, cacheDir: o.CacheDir, env: o.Env,
		report: newReporter(o.Progress), stallTimeout: stallTimeout,
	}
	if f.env == nil {
		f.env = os.Getenv
	}
	if len(f.required) == 0 {
		f.required = p.programs
	}
	for _, program := range f.required {
		if !slices.Contains(p.programs, program) {
			return nil, fmt.Errorf("there is no program %q; there are %s", program, strings.Join(p.programs, ", "))
		}
	}
	if value := f.env(EnvSources); len(f.sources) == 0 && value != "" {
		for name := range strings.SplitSeq(value, ",") {
			f.sources = append(f.sources, Source(strings.TrimSpace(name)))
		}
	}
	if len(f.sources) == 0 {
		f.sources = allSources
	}
	for _, source := range f.sources {
		if !slices.Contains(allSources, source) {
			return nil, fmt.Errorf("there is no source %q; %s may list %v", source, EnvSources, allSources)
		}
	}
	if f.cacheDir == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("the user's cache folder is unknown (%w); set HOME or XDG_CACHE_HOME", err)
		}
		f.cacheDir = filepath.Join(dir, "homeostat", "assets")
	}
	return f, nil
}

// skippedError is the reason for skipping a source. It does not stop the search.
type skippedError struct {
	reason string
	quiet  bool // not worth a report if another source succeeds
}

func (p *skippedError) Error() string { return p.reason }

func skip(format string, args ...any) error {
	return &skippedError{reason: fmt.Sprintf(format, args...)}
}

func skipQuietly(format string, args ...any) error {
	return &skippedError{reason: fmt.Sprintf(format, args...), quiet: true}
}

func (f *finder) find(ctx context.Context) (Set, error) {
	look := map[Source]func(context.Context) (Set, error){
		Environment: f.fromEnvironment, Cache: f.fromCache, Download: f.fromDownload, Build: f.fromBuild,
	}
	var reasons []error
	for _, source := range f.sources {
		if source == Download && !f.product.downloads {
			continue
		}
		set, err := look[source](ctx)
		if err == nil {
			return set, nil
		}
		var p *skippedError
		if !errors.As(err, &p) {
			return Set{}, err
		}
		if !p.quiet {
			f.report.notice("%s: %s", source, p.reason)
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", source, err))
	}
	return Set{}, fmt.Errorf("no source has %s (%w)", strings.Join(f.required, ", "), joinInline(reasons))
}

// joinInline is errors.Join on one line.
func joinInline(errs []error) error {
	var err error
	for _, e := range errs {
		if err == nil {
			err = e
		} else {
			err = fmt.Errorf("%w; %w", err, e)
		}
	}
	return err
}

// fromEnvironment searches the folder of EnvDir. An unusable folder is an error and not skipped: a user who names a
// folder does not expect another one to be used.
func (f *finder) fromEnvironment(context.Context) (Set, error) {
	value := f.env(EnvDir)
	if value == "" {
		return Set{}, skipQuietly("%s is not set", EnvDir)
	}
	dir, err := filepath.Abs(value)
	if err != nil {
		return Set{}, fmt.Errorf("%s=%s: %w", EnvDir, value, err)
	}
	const remedy = "correct it, or unset it to look elsewhere"
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return Set{}, fmt.Errorf("%s names %s, which does not exist; %s", EnvDir, value, remedy)
	case err != nil:
		return Set{}, fmt.Errorf("%s names %s, which cannot be used (%w); %s", EnvDir, value, err, remedy)
	case !info.IsDir():
		return Set{}, fmt.Errorf("%s names %s, which is not a folder; %s", EnvDir, value, remedy)
	}
	var missing []string
	for _, program := range f.required {
		switch info, err := os.Stat(filepath.Join(dir, program)); {
		case errors.Is(err, os.ErrNotExist):
			missing = append(missing, program)
		case err != nil:
			return Set{}, fmt.Errorf("%s: %w; %s", EnvDir, err, remedy)
		case info.IsDir() || info.Mode().Perm()&0o111 == 0:
			return Set{}, fmt.Errorf("%s names %s, whose %s is not executable; make it so (chmod +x), or unset %s",
				EnvDir, value, program, EnvDir)
		}
	}
	if len(missing) > 0 {
		return Set{}, skip("%s names %s, which lacks %s", EnvDir, value, strings.Join(missing, ", "))
	}
	return Set{Dir: dir, Origin: EnvDir}, nil
}

// platform returns operating system and architecture of the programs.
func platform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// missingPrograms returns the needed programs that are missing.
func missingPrograms(required, available []string) []string {
	return slices.DeleteFunc(slices.Clone(required), func(program string) bool { return slices.Contains(available, program) })
}
