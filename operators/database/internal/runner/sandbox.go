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
	// storage is where all files of a sandbox are, for its own threads; hidden is where a container has it while it is made.
	storage = "/mnt"
	hidden  = "/.machine"
	// etc is where a container has the files that change while it runs.
	etc = "/.etc"
)

// A sandbox is what the pods of one test share: files in memory and a network, which nobody else sees. Both are gone when
// the process is.
type sandbox struct {
	mounts, network *os.File // namespaces
	root            *os.File
	files           string // what threads of the sandbox find at storage, for everybody else in this process
}

// onThread calls f on a thread that ends with the call, so that whatever namespace f enters stays its own.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked, which is how Go knows not to use the thread again
		if unix.Gettid() == unix.Getpid() {
			// The first thread of a process cannot end. While it waits, another one is taken.
			done <- onThread(f)
			runtime.UnlockOSThread()
			return
		}
		done <- f()
	}()
	return <-done
}

// newSandbox makes the namespaces.
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

// A mount shows a file or a directory of the sandbox's storage in a container.
type mount struct {
	source   string // relative to the storage
	target   string
	readOnly bool
}

// A box says how a container's processes run.
type box struct {
	layer    string // a directory of the storage, for this run of the container alone
	network  *os.File
	hostname string
	image    image
	mounts   []mount
	readOnly bool // the root
	dir      string
	env      []string
	identity []string // arguments of setpriv
	log      *os.File
}

// A process is the first one of a container; when it ends, all others are ended by the kernel.
type process struct {
	box  box
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// start runs argv in namespaces of its own and returns when its process exists.
func (s *sandbox) start(b box, argv []string) (*process, error) {
	// Whoever may do everything mounts /proc, which has to be done by a process of the new namespace; then it is replaced.
	const script = `/usr/bin/mount -t proc runner /proc && exec /usr/bin/setpriv "$@"`
	p := &process{box: b, done: make(chan struct{})}
	p.cmd = exec.Command("/bin/sh", append([]string{"-c", script, "start"}, b.command(argv)...)...) //nolint:gosec // it is asked to
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = b.env, b.dir, b.log, b.log
	p.cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC, Setsid: true, Pdeathsig: unix.SIGKILL,
	}
	started := make(chan error, 1)
	go func() {
		// The thread stays as long as the process, which is killed when the thread ends.
		p.err = onThread(func() error {
			err := s.furnish(b)
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

// command is what setpriv is told. It clears the signal for the death of the parent when it changes the user.
func (b box) command(argv []string) []string {
	return append(append([]string{"--pdeathsig=KILL"}, append(b.identity, "--")...), argv...)
}

// furnish gives the calling thread the network and the file system of a container.
func (s *sandbox) furnish(b box) error {
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
	root, err := b.stack()
	if err != nil {
		return err
	}
	old := root + hidden
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
	if err := errors.Join(unix.Unmount(hidden, unix.MNT_DETACH), os.Remove(hidden)); err != nil {
		return fmt.Errorf("hiding the machine: %w", err)
	}
	if b.readOnly {
		if err := unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("making the root read-only: %w", err)
		}
	}
	return nil
}

// stack puts an empty layer over the machine's file system and returns where the result is.
func (b box) stack() (string, error) {
	layer := filepath.Join(storage, b.layer)
	upper, work, root := layer+"/upper", layer+"/work", layer+"/root"
	for _, dir := range []string{upper + "/etc", work, root} {
		if err := public(dir); err != nil {
			return "", err
		}
	}
	if err := b.image.paint(upper); err != nil {
		return "", fmt.Errorf("making the image: %w", err)
	}
	options := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return "", fmt.Errorf("mounting an overlay: %w", err)
	}
	return root, nil
}

// devices fills /dev as container runtimes do.
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

// bind mounts within the new root, so that links in the way lead where they lead in the container.
func (m mount) bind() error {
	source := filepath.Join(hidden, storage, m.source)
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	switch _, err := os.Stat(m.target); {
	case err == nil:
	case info.IsDir():
		if err := os.MkdirAll(m.target, 0o755); err != nil { //nolint:gosec // everybody reads it
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

// exec runs argv beside the container's process, as its user and with its environment, and returns what it prints. What it
// complains of is in the error, which is an *exec.ExitError if it ran.
func (s *sandbox) exec(ctx context.Context, p *process, argv []string) (string, error) {
	var out, complaints strings.Builder
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
		cmd := exec.CommandContext(ctx, "/usr/bin/setpriv", p.box.command(argv)...) //nolint:gosec // it is asked to
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.box.env, p.box.dir, &out, &complaints
		// No Pdeathsig: the child would see that its parent is not whom it expects, because that one is in another namespace,
		// and end itself at once. Process 1 of a namespace cannot do that.
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
		cmd.WaitDelay = waitDelay
		return cmd.Run()
	})
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, complaints.String())
	}
	return out.String(), err
}

// enter puts the calling thread into namespaces.
func enter(where *os.File, kinds int) error {
	if err := unix.Setns(int(where.Fd()), kinds); err != nil {
		return fmt.Errorf("entering a namespace: %w", err)
	}
	return nil
}
