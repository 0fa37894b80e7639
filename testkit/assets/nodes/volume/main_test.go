//go:build linux

package volume

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

const (
	programEnv = "HOMEOSTAT_VOLUME_TEST_PROGRAM" // makes the test binary the program
	killEnv    = "HOMEOSTAT_VOLUME_TEST_KILL"    // the step after which the program kills itself
	insideEnv  = "HOMEOSTAT_VOLUME_TEST_INSIDE"  // set in the mount namespace of the tests

	enableEnv = "TESTKIT_NODES" // 1 makes the tests run that need root
)

// TestMain runs the tests in a mount namespace of their own, so that the host has no mounts of a killed test.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(programEnv) != "":
		killAfterStep()
		os.Exit(Main(os.Args[1:]))
	case os.Getenv(insideEnv) != "" || os.Getenv(enableEnv) != "1" || os.Getuid() != 0:
		os.Exit(m.Run())
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a mount namespace:", err)
		os.Exit(m.Run())
	}
}

func killAfterStep() {
	last, err := strconv.Atoi(os.Getenv(killEnv))
	if err != nil {
		return
	}
	step := 0
	afterStep = func() {
		if step++; step == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}
