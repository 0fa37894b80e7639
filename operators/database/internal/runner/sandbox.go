//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// storage has all files of a sandbox, in its mount namespace; oldRoot is the machine's root during the setup of a
	// container.
	storage = "/mnt"
	oldRoot = "/.machine"
	// etc has the files that change during the run of a container.
	etc = "/.etc"
)

// A sandbox has the files in memory and the network that the pods of one test share. The kernel removes both when the
// process ends.
type sandbox struct {
	mounts, network *os.File // namespaces
	root            *os.File
	files           string // storage, as seen from the other threads of this process
}

// onThread calls f on a thread of its own, so that f may enter a namespace.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the runtime ends the thread
		if unix.Gettid() == unix.Getpid() {
			// The first thread of a process cannot end. While it waits, f runs on another one.
			done <- onThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// newSandbox creates the namespaces.
func newSandbox() (*sandbox, error) {
	s := &sandbox{}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("making mounts private: %w", err)
		}
		if err := unix.Mount("runner", storage, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mounting a file system in memory: %w", err)
		}
		var errs [3]error
		s.mounts, errs[0] = os.Open("/proc/thread-self/ns/mnt")
		s.network, errs[1] = os.Open("/proc/thread-self/ns/net")
		s.root, errs[2] = os.Open(storage)
		return errors.Join(errs[:]...)
	})
	if err != nil {
		return nil, err
	}
	s.files = fmt.Sprintf("/proc/self/fd/%d", s.root.Fd())
	return s, nil
}

func (s *sandbox) close() {
	for _, f := range []*os.File{s.root, s.network, s.mounts} {
		_ = f.Close()
	}
}

// A mount makes a file or directory of the storage visible in a container.
type mount struct {
	source   string // relative to the storage
	target   string
	readOnly bool
}

// A processSpec describes the processes of a container.
type processSpec struct {
	layer    string // directory in the storage, for this run of the container
	network  *os.File
	hostname string
	image    image
	mounts   []mount
	readOnly bool // the root file system
	dir      string
	env      []string
	identity []string // arguments of setpriv
	log      *os.File
}

// A process is the first one of a container. When it ends, the kernel kills all others.
type process struct {
	spec processSpec
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// start runs argv in new namespaces and returns when the process exists.
func (s *sandbox) start(b processSpec, argv []string) (*process, error) {
	// A process inside the new PID namespace has to mount /proc, with all capabilities. Then setpriv replaces it.
	const script = `/usr/bin/mount -t proc runner /proc && exec /usr/bin/setpriv "$@"`
	p := &process{spec: b, done: make(chan struct{})}
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", script, "start"}, b.command(argv)...)...) //nolint:gosec // the pod's command
	p.cmd.Env = b.env
	p.cmd.Dir = b.dir
	p.cmd.Stdout = b.log
	p.cmd.Stderr = b.log
	p.cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC, Setsid: true, Pdeathsig: unix.SIGKILL,
	}
	started := make(chan error, 1)
	go func() {
		// The process is killed when its thread ends, so the thread waits for it.
		p.err = onThread(func() error {
			err := s.enterContainer(b)
			if err == nil {
				err = p.cmd.Start()
			}
			started <- err
			if err != nil {
				return err
			}
			return p.cmd.Wait()
		})
		close(p.done)
	}()
	return p, <-started
}

// command returns the arguments of setpriv. It repeats the parent death signal, because the kernel clears that when the user
// changes.
func (s processSpec) command(argv []string) []string {
	return append(append([]string{"--pdeathsig=KILL"}, append(s.identity, "--")...), argv...)
}

// enterContainer moves the calling thread into the network and the file system of a container.
func (s *sandbox) enterContainer(b processSpec) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the other threads: %w", err)
	}
	if err := errors.Join(enter(s.mounts, unix.CLONE_NEWNS), enter(b.network, unix.CLONE_NEWNET)); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	if err := unix.Sethostname([]byte(b.hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	root, err := b.mountOverlay()
	if err != nil {
		return err
	}
	old := root + oldRoot
	if err := os.Mkdir(old, 0o700); err != nil {
		return fmt.Errorf("making a root: %w", err)
	}
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := errors.Join(os.Chdir("/"), devices()); err != nil {
		return fmt.Errorf("making devices: %w", err)
	}
	for _, m := range b.mounts {
		if err := m.bind(); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	if err := errors.Join(unix.Unmount(oldRoot, unix.MNT_DETACH), os.Remove(oldRoot)); err != nil {
		return fmt.Errorf("hiding the machine: %w", err)
	}
	if b.readOnly {
		if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("making the root read-only: %w", err)
		}
	}
	return nil
}

// mountOverlay mounts an empty layer above the machine's file system and returns the mount point.
func (s processSpec) mountOverlay() (string, error) {
	layer := filepath.Join(storage, s.layer)
	upper, work, root := layer+"/upper", layer+"/work", layer+"/root"
	for _, dir := range []string{upper + "/etc", work, root} {
		if err := makePublicDir(dir); err != nil {
			return "", err
		}
	}
	if err := s.image.prepareLayer(upper); err != nil {
		return "", fmt.Errorf("making the image: %w", err)
	}
	options := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return "", fmt.Errorf("mounting an overlay: %w", err)
	}
	return root, nil
}

// devices creates the files in /dev as container runtimes do.
func devices() error {
	if err := unix.Mount("runner", "/dev", "tmpfs", unix.MS_NOSUID, "mode=0755"); err != nil {
		return err
	}
	defer unix.Umask(unix.Umask(0))
	var errs []error
	const memory = 1
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
		errs = append(errs, unix.Mknod("/dev/"+name, unix.S_IFCHR|0o666, int(unix.Mkdev(memory, minor)))) //nolint:gosec // small
	}
	for name, to := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		errs = append(errs, os.Symlink("/proc/self/fd"+to, "/dev/"+name))
	}
	errs = append(errs, os.Mkdir("/dev/shm", 0o777|os.ModeSticky))
	return errors.Join(errs...)
}

// bind mounts inside of the new root, so that symbolic links resolve as in the container.
func (m mount) bind() error {
	source := filepath.Join(oldRoot, storage, m.source)
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	switch _, err := os.Stat(m.target); {
	case err == nil:
	case info.IsDir():
		if err := os.MkdirAll(m.target, 0o755); err != nil { //nolint:gosec // not a secret
			return err
		}
	default:
		if err := os.WriteFile(m.target, nil, 0o600); err != nil {
			return err
		}
	}
	if err := unix.Mount(source, m.target, "", unix.MS_BIND, ""); err != nil || !m.readOnly {
		return err
	}
	return unix.Mount("", m.target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// exec runs argv beside the container's process, with the same user and environment, and returns its standard output.
// Standard error is in the error, an *exec.ExitError if the command ran.
func (s *sandbox) exec(ctx context.Context, p *process, argv []string) (string, error) {
	var out, stderr strings.Builder
	err := onThread(func() error {
		fd, err := unix.PidfdOpen(p.cmd.Process.Pid, 0)
		if err != nil {
			return fmt.Errorf("finding the container: %w", err)
		}
		target := os.NewFile(uintptr(fd), "container")
		defer func() { _ = target.Close() }()
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("leaving the other threads: %w", err)
		}
		const all = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWPID
		if err := enter(target, all); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "/usr/bin/setpriv", p.spec.command(argv)...) //nolint:gosec // the pod's command
		cmd.Env = p.spec.env
		cmd.Dir = p.spec.dir
		cmd.Stdout = &out
		cmd.Stderr = &stderr
		// No Pdeathsig: setpriv would compare its parent's PID, see another PID namespace, and exit at once. Process 1 is not
		// affected.
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		cmd.WaitDelay = waitDelay
		return cmd.Run()
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return out.String(), err
}

// enter moves the calling thread into namespaces.
func enter(where *os.File, kinds int) error {
	if err := unix.Setns(int(where.Fd()), kinds); err != nil {
		return fmt.Errorf("entering a namespace: %w", err)
	}
	return nil
}
