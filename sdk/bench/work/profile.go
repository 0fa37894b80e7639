package work

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// ProfileVariable names the environment variable with the file for a profile of the contender's CPU time.
const ProfileVariable = "BENCH_CPU_PROFILE"

// Profile lets the benchmark profile the contender if it asks for it: each SIGUSR1 begins the profile, or ends it.
func Profile() {
	name := os.Getenv(ProfileVariable)
	if name == "" {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		<-signals
		file, err := os.Create(name) //nolint:gosec // where the benchmark says
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "profiling:", err)
			return
		}
		<-signals
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "profiling:", err)
		}
	}()
}
