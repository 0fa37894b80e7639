package realnodes_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

var faultSeed = flag.Uint64("fault.seed", 0, "seed of TestRandomFaults; 0 is a random one")

// After random faults every pod and every restart is counted once, and two containers have never run at a time. 20 faults
// with -short, 100 without.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	const objects = 4
	faults := 25
	if testing.Short() {
		faults = 5
	}
	seed := *faultSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the seed is -fault.seed=%d", seed)
	for i := range uint64(objects) {
		t.Run(strconv.FormatUint(i, 10), func(t *testing.T) {
			t.Parallel()
			k := start(t)
			ic := newContainer("a")
			c := &counted{k: k, ic: ic, journal: keepJournal(t, ic), starts: 1}
			k.Apply(ic)
			pod := c.ready(t)
			choose := rand.New(rand.NewPCG(seed, i))
			for range faults {
				c.fault(choose, pod)
				pod = c.ready(t)
			}
		})
	}
}

// A counted is an ImmortalContainer with the numbers that it should have.
type counted struct {
	k        *testkit.K
	ic       *v1alpha1.ImmortalContainer
	journal  journal
	starts   int64
	restarts int32 // of the present pod
}

// fault is one of the faults, which change the numbers.
func (c *counted) fault(choose *rand.Rand, pod *corev1.Pod) {
	const maxRestarts = 2 // the node waits longer with each one
	switch kind := choose.IntN(5); {
	case kind < 2 && c.restarts < maxRestarts:
		containerOf(c.k, pod).Kill()
		c.restarts++
	case kind == 2:
		paused := containerOf(c.k, pod)
		paused.Pause()
		c.k.Eventually(c.ic, testkit.Condition("Ready", metav1.ConditionFalse))
		paused.Continue()
	default:
		if kind == 3 {
			containerOf(c.k, pod).Pause()
		}
		if choose.IntN(2) == 0 {
			c.k.Delete(pod)
		} else {
			c.k.Evict(pod)
		}
		c.starts++
		c.restarts = 0
	}
}

// ready waits until the numbers are the expected ones, and checks what has run.
func (c *counted) ready(t *testing.T) *corev1.Pod {
	t.Helper()
	c.k.Eventually(c.ic, testkit.Ready(), starts(c.starts), restarts(c.restarts))
	pod := podOf(c.k, c.ic)
	lines := c.journal.lines()
	if slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "another") }) {
		t.Fatalf("two containers ran at a time: %q", lines)
	}
	pods := map[string]int32{}
	for _, l := range lines {
		pods[l]++
	}
	if ran := pods[fmt.Sprintf("%s alone", pod.UID)]; int64(len(pods)) != c.starts || ran != c.restarts+1 {
		t.Fatalf("%d pods ran, and the last had %d containers; the status has %d starts and %d restarts", len(pods), ran,
			c.starts, c.restarts)
	}
	return pod
}
