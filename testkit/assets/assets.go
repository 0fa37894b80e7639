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
)

// KubernetesVersion is the version of everything that is built or downloaded. What KUBEBUILDER_ASSETS names may be of
// another.
const KubernetesVersion = "v1.37.0"

// The programs that there are.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	Kwok              = "kwok"
)

// programs lists all of them.
var programs = []string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl, Kwok}

// Environment variables that have a say.
const (
	// EnvDir names a folder with programs; controller-runtime's envtest knows it too.
	EnvDir = "KUBEBUILDER_ASSETS"
	// EnvSources lists the sources to look into, in this order, separated by commas.
	EnvSources = "TESTKIT_ASSETS"
)

// A Source is where programs may come from.
type Source string

// The sources that there are, in the order in which they are looked into unless somebody chooses another.
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
	// Source says in a few words where the programs come from, for people to read.
	Source string
}

// Path returns the file of a program, whether it exists or not.
func (s Set) Path(program string) string { return filepath.Join(s.Dir, program) }

// Options says what is needed, and where to look.
type Options struct {
	// Need names the programs that the set must hold; empty means all of them.
	Need []string
	// Sources are looked into in this order; empty means what EnvSources says, or all of them.
	Sources []Source
	// Progress is told what is being done, by one goroutine at a time; nil means nobody wants to know. It is not called
	// when the programs are simply there. See Print.
	Progress func(Progress)
	// CacheDir is the folder that keeps what was built or downloaded; empty means homeostat/assets in the user's cache
	// folder.
	CacheDir string
	// Env looks up EnvDir and EnvSources; nil means os.Getenv.
	Env func(string) string
}

// Find returns a set with the needed programs from the first source that has all of them. Where a source is passed
// over for a reason that the user might want to change, Progress is told; when all are, the error names every reason.
// Several processes may call it at the same time: one builds, the others wait. Canceling ctx ends the build and leaves
// nothing but what speeds up the next one.
func Find(ctx context.Context, o Options) (Set, error) {
	f, err := newFinder(o)
	if err != nil {
		return Set{}, fmt.Errorf("finding a control plane: %w", err)
	}
	set, err := f.find(ctx)
	f.report.end(set, err)
	if err != nil {
		return Set{}, fmt.Errorf("finding a control plane: %w", err)
	}
	return set, nil
}

// finder is one search.
type finder struct {
	need     []string
	sources  []Source
	cacheDir string
	env      func(string) string
	report   *reporter

	indexURL     string        // of what can be downloaded; empty means the usual one
	stallTimeout time.Duration // ends a download that does not get on
}

func newFinder(o Options) (*finder, error) {
	f := &finder{
		need: o.Need, sources: o.Sources, cacheDir: o.CacheDir, env: o.Env,
		report: newReporter(o.Progress), stallTimeout: stallTimeout,
	}
	if f.env == nil {
		f.env = os.Getenv
	}
	if len(f.need) == 0 {
		f.need = programs
	}
	for _, program := range f.need {
		if !slices.Contains(programs, program) {
			return nil, fmt.Errorf("there is no program %q; there are %s", program, strings.Join(programs, ", "))
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

// passedOverError is why a source does not serve, although nothing went wrong that has to stop the search.
type passedOverError struct {
	reason string
	quiet  bool // nobody needs to hear of it as long as another source serves
}

func (p *passedOverError) Error() string { return p.reason }

func passOver(format string, args ...any) error {
	return &passedOverError{reason: fmt.Sprintf(format, args...)}
}

func passOverQuietly(format string, args ...any) error {
	return &passedOverError{reason: fmt.Sprintf(format, args...), quiet: true}
}

func (f *finder) find(ctx context.Context) (Set, error) {
	look := map[Source]func(context.Context) (Set, error){
		Environment: f.fromEnvironment, Cache: f.fromCache, Download: f.fromDownload, Build: f.fromBuild,
	}
	var reasons []error
	for _, source := range f.sources {
		set, err := look[source](ctx)
		if err == nil {
			return set, nil
		}
		var p *passedOverError
		if !errors.As(err, &p) {
			return Set{}, err
		}
		if !p.quiet {
			f.report.notice("%s: %s", source, p.reason)
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", source, err))
	}
	return Set{}, fmt.Errorf("no source has %s (%w)", strings.Join(f.need, ", "), joined(reasons))
}

// joined is errors.Join on one line.
func joined(errs []error) error {
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

// fromEnvironment looks where the user says. A folder that cannot be meant is an error: whoever names one would not
// want to see another one used.
func (f *finder) fromEnvironment(context.Context) (Set, error) {
	value := f.env(EnvDir)
	if value == "" {
		return Set{}, passOverQuietly("%s is not set", EnvDir)
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
	for _, program := range f.need {
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
		return Set{}, passOver("%s names %s, which lacks %s", EnvDir, value, strings.Join(missing, ", "))
	}
	return Set{Dir: dir, Source: EnvDir}, nil
}

// platform is what the programs are built or downloaded for.
func platform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// supported says whether the control plane exists for this operating system.
func supported(goos string) bool { return goos == "linux" || goos == "darwin" }

// lacking returns what is needed and not there.
func lacking(need, have []string) []string {
	return slices.DeleteFunc(slices.Clone(need), func(program string) bool { return slices.Contains(have, program) })
}
