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

	"golang.org/x/sync/errgroup"

	"github.com/homeostat-dev/homeostat/testkit/internal/tempfolder"
)

// Build compiles the operator's program and returns its file. The file is kept between calls: without changes the go
// command does not link it again. The program is built without C, as released images are, unless CGO_ENABLED is set.
func (p *Project) Build(ctx context.Context) (string, error) {
	file, err := p.programFile("")
	if err != nil {
		return "", err
	}
	return file, p.build(ctx, file)
}

// build compiles and links the operator's program.
func (p *Project) build(ctx context.Context, file string, flags ...string) error {
	if err := runGo(ctx, p.Dir, slices.Concat([]string{"build", "-o", file}, flags, []string{p.Package})...); err != nil {
		return fmt.Errorf("building operator %s: %w", p.Name, err)
	}
	return nil
}

// programFile returns the file of the operator's program in a folder of the cache.
func (p *Project) programFile(folder string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("building operator %s: %w", p.Name, err)
	}
	sum := sha256.Sum256([]byte(p.Dir))
	return filepath.Join(cache, "homeostat", "operators", hex.EncodeToString(sum[:6]), folder, p.Name), nil
}

// buildAll is Build for all projects. Programs for images are linked without debug information, as those of released images
// are: it is a third of the file, and each node that runs the operator pulls and unpacks the file. Where one go command
// shows that nothing has changed, no further one runs for each program.
func buildAll(ctx context.Context, projects []*Project, forImages bool) ([]string, error) {
	folder, flags := "", []string(nil)
	if forImages {
		folder, flags = "image", []string{"-ldflags=-s -w"}
	}
	inputs := compile(ctx, projects, flags)
	files := make([]string, len(projects))
	var changed []int
	group, groupCtx := errgroup.WithContext(ctx)
	for i, p := range projects {
		file, err := p.programFile(folder)
		if err != nil {
			return nil, err
		}
		files[i] = file
		if inputs[i] == "" || !isBuiltFrom(file, inputs[i]) {
			changed = append(changed, i)
			group.Go(func() error { return p.build(groupCtx, file, flags...) })
		}
	}
	if err := group.Wait(); err != nil || len(changed) == 0 {
		return files, err
	}
	after := compile(ctx, projects, flags)
	for _, i := range changed {
		if inputs[i] == "" || after[i] != inputs[i] { // otherwise the source may have changed before it was compiled
			continue
		}
		if err := recordInputs(files[i], inputs[i]); err != nil {
			return nil, fmt.Errorf("building operator %s: %w", projects[i].Name, err)
		}
	}
	return files, nil
}

// compile compiles the packages of all programs with one go command for each workspace, and links none. Go commands that
// run in parallel would each compile the packages that they have in common. It returns a digest of all that the program of
// each project is linked from, and of the flags, or nothing for a project that has no workspace in common with others: a go
// command for it alone would not be faster than Build. Errors are left to Build, which names the operator.
func compile(ctx context.Context, projects []*Project, flags []string) []string {
	members := map[string][]int{}
	for i, p := range projects {
		settings, err := exec.CommandContext(ctx, "go", "-C", p.Dir, "env", "GOWORK", "GOFLAGS").Output()
		if err == nil && filepath.IsAbs(string(settings)) { // GOWORK is empty or off without a workspace
			members[string(settings)] = append(members[string(settings)], i)
		}
	}
	digests := make([]string, len(projects))
	for settings, indexes := range members {
		if len(indexes) < 2 {
			continue
		}
		// The ID of a package is a digest of its source, of the packages that it imports, of the compiler and of its flags.
		args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.BuildID}}"}
		for _, i := range indexes {
			args = append(args, filepath.Join(projects[i].Dir, projects[i].Package))
		}
		packages, err := goOutput(ctx, projects[indexes[0]].Dir, args...)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(fmt.Appendln(packages, settings, flags))
		for _, i := range indexes {
			digests[i] = hex.EncodeToString(sum[:])
		}
	}
	return digests
}

// isBuiltFrom reports whether recordInputs has recorded a digest for a file, which has not changed since.
func isBuiltFrom(file, inputs string) bool {
	recorded, err := os.ReadFile(file + recordSuffix)
	if err != nil {
		return false
	}
	now, err := record(file, inputs)
	return err == nil && string(recorded) == now
}

// recordInputs records the digest of what a file was linked from.
func recordInputs(file, inputs string) error {
	text, err := record(file, inputs)
	if err != nil {
		return err
	}
	return os.WriteFile(file+recordSuffix, []byte(text), 0o600)
}

const recordSuffix = ".inputs"

func record(file, inputs string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	return fmt.Sprintln(inputs, info.Size(), info.ModTime().UnixNano()), nil
}

// runGo runs the go command in a folder. A canceled context ends its compilers too, and removes their temporary files.
func runGo(ctx context.Context, dir string, args ...string) error {
	_, err := goOutput(ctx, dir, args...)
	return err
}

// goOutput is runGo, and returns the output.
func goOutput(ctx context.Context, dir string, args ...string) ([]byte, error) {
	temporary, err := tempfolder.Make()
	if err != nil {
		return nil, err
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
	out, err := cmd.Output()
	if err != nil {
		return nil, withStderr(err)
	}
	return out, nil
}

// withStderr adds the error output of the go command.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w:\n%s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
