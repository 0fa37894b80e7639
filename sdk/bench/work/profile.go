package work

import (
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// ProfileVariable names the environment variable with the file for a profile of the candidate's CPU time.
const ProfileVariable = "BENCH_CPU_PROFILE"

// EnableProfiling enables CPU profiling by the benchmark if ProfileVariable is set: the first SIGUSR1 begins the
// profile, the second ends it.
func EnableProfiling() {
	name := os.Getenv(ProfileVariable)
	if name == "" {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		<-signals
		file, err := os.Create(name) //nolint:gosec // the benchmark names the file
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
