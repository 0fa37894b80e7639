package testkit

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// operatorLabel is the profiler label of all goroutines of an operator: goroutines inherit it from those that start them, so
// that whatever else runs in the process is told apart.
const operatorLabel = "testkit-operator"

// patience bounds the wait for goroutines that are about to end.
const leakPatience = 5 * time.Second

// leaked returns the goroutines with the label that are left, each as its stack, when those that are ending have had the
// time to.
func leaked(label string) []string {
	deadline := time.Now().Add(leakPatience)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left := labelled(label)
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-time.After(wait)
	}
}

// labelled reads the stacks of the goroutines with the label from a profile, where goroutines with the same stack are told
// as one.
func labelled(label string) []string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil // a buffer takes everything
	}
	var found []string
	for group := range strings.SplitSeq(b.String(), "\n\n") {
		lines := strings.Split(strings.TrimSpace(group), "\n")
		of := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "# labels:") })
		if of < 0 || !strings.Contains(lines[of], fmt.Sprintf("%q:%q", operatorLabel, label)) {
			continue
		}
		if stack := frames(lines[of+1:]); len(stack) > 0 && !isInnocent(stack[len(stack)-1]) {
			count, _, _ := strings.Cut(lines[0], " ")
			if of > 0 && strings.HasPrefix(lines[0], "goroutine profile:") {
				count, _, _ = strings.Cut(lines[1], " ")
			}
			found = append(found, fmt.Sprintf("%s times\n    %s", count, strings.Join(stack, "\n    ")))
		}
	}
	return found
}

// frames takes function and place from lines such as "#	0x4a	net/http.(*persistConn).readLoop+0x1	/usr/lib/x.go:12".
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

// What goroutines begin with that are nobody's fault.
var (
	// These belong to connections to the API server, which all clients of a process share, whoever needed one first.
	sharedConnections = []string{
		"net/http.", "net/http/internal/http2.", "golang.org/x/net/http2.", "net.", "internal/singleflight.",
		"k8s.io/client-go/transport.", "k8s.io/client-go/util/connrotation.",
	}
	// These hang for ever in libraries that operators cannot help: the first wait for informers of a cache of several
	// namespaces that is stopped before they are in sync, the second hand the end of a watch of metadata to nobody.
	stuckInformers = []string{
		"sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer",
		"k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop",
	}
)

// isInnocent judges a goroutine by the function that it began with.
func isInnocent(entry string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(entry, prefix) }
	return slices.ContainsFunc(sharedConnections, begins) || slices.ContainsFunc(stuckInformers, begins)
}
