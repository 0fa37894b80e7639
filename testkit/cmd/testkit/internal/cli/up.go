package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// background is the environment variable that turns a process into the sandbox of `up --detach`. Its value is the
// socket directory, locked by the parent process.
const background = "TESTKIT_SANDBOX"

const (
	// readyTimeout bounds the time in which the samples become Ready, and realReadyTimeout that on real nodes, where servers
	// initialize their data.
	readyTimeout     = 2 * time.Minute
	realReadyTimeout = 5 * time.Minute
	// defaultRealNodes is the default number of real nodes: enough for a pod to move to another one.
	defaultRealNodes = 2
	// failureLinger is how long a failed background sandbox waits for a client that asks for the reason.
	failureLinger = 5 * time.Second
	// askInterval is the interval at which the status of a sandbox in another process is read.
	askInterval = 200 * time.Millisecond
	// redrawInterval is the interval at which an unchanged table is redrawn, because ages change.
	redrawInterval = 5 * time.Second
	// redrawDelay merges a burst of changes into one redraw.
	redrawDelay = 100 * time.Millisecond
)

func (c *command) up(ctx context.Context, args []string) error {
	o, err := c.upOptions(ctx, args)
	if err != nil {
		return err
	}
	if dir := os.Getenv(background); dir != "" {
		return c.runBackground(ctx, socketdir.At(dir), o)
	}
	box, err := findSandbox()
	if err != nil {
		return err
	}
	if s, err := box.status(); err == nil {
		return c.attach(ctx, box, s, o)
	}
	if o.existing == nil && hasKubeconfig() {
		c.say("KUBECONFIG is ignored, for this is a cluster of its own; to use a cluster of yours, name its context: %s",
			upCommand("CONTEXT=NAME", "--context NAME"))
	}
	// Before the lock, because the first time takes minutes.
	if _, _, err := c.upAssets(ctx, o); err != nil {
		return err
	}
	unlock, err := box.dir.Lock(ctx)
	if err != nil {
		return err
	}
	if s, err := box.status(); err == nil {
		unlock()
		return c.attach(ctx, box, s, o)
	}
	box.dir.RemoveFailure()
	if err := box.dir.Clean(); err != nil {
		unlock()
		return err
	}
	if o.detach {
		return c.detach(ctx, box, unlock, o)
	}
	return c.runForeground(ctx, box.dir, unlock, o)
}

// upAssets provides all programs, or none for an existing cluster.
func (c *command) upAssets(ctx context.Context, o upOptions) (controlPlane, nodes assets.Set, err error) {
	if o.existing != nil {
		return controlPlane, nodes, nil
	}
	if controlPlane, err = c.find(ctx, nil); err == nil && o.real {
		nodes, err = c.findNodes(ctx)
	}
	return controlPlane, nodes, err
}

// attach handles a sandbox that is already running.
func (c *command) attach(ctx context.Context, box client, s status, o upOptions) error {
	if err := o.fits(s); err != nil {
		return err
	}
	if o.detach {
		c.say("it is already running")
		err := c.await(ctx, box, len(s.Lines))
		if ctx.Err() != nil {
			c.say("interrupted; it still runs, %s stops it", stopCommand())
			return exitError(exitInterrupted)
		}
		return err
	}
	c.say("it is already running; Ctrl-C only ends this view, %s stops it", stopCommand())
	v := newView(c.out)
	defer v.end()
	for kept := false; ; {
		s, err := box.askAbout(askView)
		if err != nil {
			c.say("%s", box.notRunning())
			return nil
		}
		if s.Ready && !kept {
			kept = true
			v.keep(readyText(s, stopCommand()))
		}
		v.show(s.View)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(askInterval):
		}
	}
}

// detach starts the sandbox in the background and waits until it is ready.
func (c *command) detach(ctx context.Context, box client, unlock func(), o upOptions) error {
	defer unlock()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	if err := os.MkdirAll(box.dir.Path(), 0o700); err != nil {
		return fmt.Errorf("making a folder for the sandbox: %w", err)
	}
	args := []string{
		"up", "--nodes", strconv.Itoa(o.nodes), "--context", o.context(), "--bare=" + strconv.FormatBool(o.bare),
		"--real=" + strconv.FormatBool(o.real),
	}
	for _, dir := range o.images {
		args = append(args, "--images", dir)
	}
	cmd := exec.Command(program, append(args, o.dirs...)...)
	cmd.Env = append(os.Environ(), background+"="+box.dir.Path())
	conn, err := box.dir.Spawn(ctx, cmd, box.dir.File("sandbox.log"))
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("talking to the sandbox: %w", err)
	}
	unlock()
	err = c.await(ctx, box, 0)
	if err != nil {
		_ = box.stop(context.WithoutCancel(ctx))
	}
	if ctx.Err() != nil {
		c.say("interrupted; nothing is left running")
		return exitError(exitInterrupted)
	}
	return err
}

// await prints the new report lines of a background sandbox until it is ready. The first lines were already printed.
func (c *command) await(ctx context.Context, box client, seen int) error {
	for {
		s, err := box.status()
		if err != nil {
			return errors.New("the sandbox has ended before it was ready")
		}
		for _, line := range s.Lines[seen:] {
			c.say("%s", line)
		}
		seen = len(s.Lines)
		switch {
		case s.Failure != "":
			return errors.New(s.Failure) // the message of another process
		case s.Ready:
			_, _ = fmt.Fprintf(c.out, "\n%s\n", strings.Join(readyText(s, stopCommand()), "\n\n"))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askInterval):
		}
	}
}

// readyText returns the commands to paste and to try, in parts, the most important first.
func readyText(s status, stop string) []string {
	use := "Everything is ready. To use it:\n\n  export KUBECONFIG=" + s.Kubeconfig
	if s.Programs != "" {
		use += "\n  export PATH=" + s.Programs + ":$PATH"
	}
	parts := []string{use}
	if s.WithoutOperators && len(s.Dirs) > 0 {
		where := map[bool]string{false: "as processes here", true: "on the nodes"}[s.Real]
		parts = append(parts, "Nothing is installed. As soon as you install an operator, its pods run "+where+": "+
			installCommand(s.Dirs[0]))
	}
	if s.Ingress.HTTP != "" {
		parts = append(parts, "Ingresses are served at "+s.Ingress.HTTP+", and with TLS at "+s.Ingress.HTTPS+":\n\n"+
			"  curl --connect-to ::"+s.Ingress.HTTP+" http://HOST\n"+
			"  curl --connect-to ::"+s.Ingress.HTTPS+" https://HOST")
	}
	parts = append(parts, "To stop it: "+stop)
	if len(s.SampleCommands) > 0 {
		parts = append(parts, "Things to try:\n\n  "+strings.Join(s.SampleCommands, "\n  "))
	}
	return parts
}

// startedByMake reports whether the command was started by make.
func startedByMake() bool { return os.Getenv("MAKELEVEL") != "" }

// stopCommand returns the command that stops the sandbox.
func stopCommand() string {
	if startedByMake() {
		return "make down"
	}
	return "testkit down"
}

// installCommand returns the command that installs the operator in a folder.
func installCommand(dir string) string {
	if startedByMake() {
		return "make deploy OPERATOR=" + filepath.Base(dir)
	}
	return "kubectl apply --server-side -k " + filepath.Join(dir, "config", "default")
}

// upCommand returns the up command with the arguments of make or of testkit.
func upCommand(ofMake, ofTestkit string) string {
	if startedByMake() {
		return strings.TrimSpace("make up " + ofMake)
	}
	return strings.TrimSpace("testkit up " + ofTestkit)
}

func names(dirs []string) string {
	var base []string
	for _, dir := range dirs {
		base = append(base, filepath.Base(dir))
	}
	return strings.Join(base, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
