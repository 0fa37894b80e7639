package testkit

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// operatorLabel is the profiler label of all goroutines of an operator. New goroutines inherit it, so it separates them
// from all others of the process.
const operatorLabel = "testkit-operator"

// leakTimeout bounds the wait for goroutines that are about to end.
const leakTimeout = 5 * time.Second

// leakedStacks returns the stacks of the remaining goroutines with the label, after waiting for goroutines that are ending.
func leakedStacks(label string) []string {
	deadline := time.Now().Add(leakTimeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left := labelled(label)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-time.After(wait)
	}
}

// labelled reads the stacks of the goroutines with the label from a profile. Goroutines with equal stacks form one
// entry.
func labelled(label string) []string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil // a buffer never fails
	}
	var found []string
	for group := range strings.SplitSeq(b.String(), "\n\n") {
		lines := strings.Split(strings.TrimSpace(group), "\n")
		of := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "# labels:") })
		if of < 0 || !strings.Contains(lines[of], fmt.Sprintf("%q:%q", operatorLabel, label)) {
			continue
		}
		if stack := frames(lines[of+1:]); len(stack) > 0 && !isKnownBackground(stack[len(stack)-1]) {
			count, _, _ := strings.Cut(lines[0], " ")
			if of > 0 && strings.HasPrefix(lines[0], "goroutine profile:") {
				count, _, _ = strings.Cut(lines[1], " ")
			}
			found = append(found, fmt.Sprintf("%s times\n    %s", count, strings.Join(stack, "\n    ")))
		}
	}
	return found
}

// frames returns function and position of lines such as "#	0x4a	net/http.(*persistConn).readLoop+0x1	/usr/lib/x.go:12".
func frames(lines []string) []string {
	var all []string
	for _, line := range lines {
		fields := strings.Fields(line)
		const parts = 4
		if len(fields) < parts || fields[0] != "#" {
			continue
		}
		function, _, _ := strings.Cut(fields[2], "+0x")
		all = append(all, function+" "+fields[3])
	}
	return all
}

// Entry functions of goroutines that are ignored.
var (
	// sharedConnections serve connections to the API server. All clients of a process share them.
	sharedConnections = []string{
		"net/http.", "net/http/internal/http2.", "golang.org/x/net/http2.", "net.", "internal/singleflight.",
		"k8s.io/client-go/transport.", "k8s.io/client-go/util/connrotation.",
	}
	// stuckInformers hang forever in libraries, out of an operator's control. The first waits for the informers of a
	// multi-namespace cache that was stopped before they synced. The second sends the end of a metadata watch to a
	// channel without a receiver.
	stuckInformers = []string{
		"sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer",
		"k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop",
	}
)

// isKnownBackground reports whether a goroutine with this entry function is ignored.
func isKnownBackground(entry string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(entry, prefix) }
	return slices.ContainsFunc(sharedConnections, begins) || slices.ContainsFunc(stuckInformers, begins)
}
