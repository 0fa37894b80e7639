package policy_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/policy"
)

// A pod that cannot start for hours must not change the status with every attempt.
func TestMessagesDoNotChangeWithAttempts(t *testing.T) {
	t.Parallel()
	for name, attempts := range map[string][]*corev1.Pod{
		"image": {
			pod("a", waitingFor("ErrImagePull", "rpc error: request 4711: not found")),
			pod("a", waitingFor("ImagePullBackOff", `Back-off pulling image "nginx:latest"`)),
			pod("a", waitingFor("ErrImagePull", "rpc error: request 4712: not found")),
		},
		"crash loop": {
			pod("a", waitingFor("CrashLoopBackOff", "back-off 10s restarting failed container")),
			pod("a", waitingFor("CrashLoopBackOff", "back-off 20s restarting failed container")),
		},
		"start": {
			pod("a", waitingFor("RunContainerError", "container 0123abcd")),
			pod("a", waitingFor("RunContainerError", "container 4567cdef")),
		},
	} {
		ic := withRunningPod()
		policy.Next(ic, attempts[0], noon)
		first := ic.Status.DeepCopy()
		for i, attempt := range attempts[1:] {
			if policy.Next(ic, attempt, noon); !sameStatus(first, &ic.Status) {
				t.Errorf("%s: attempt %d changes the status", name, i+2)
			}
		}
	}
}

// Messages of nodes and containers may be long and need not be valid UTF-8.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	for name, message := range map[string]string{
		"long": strings.Repeat("x", 5000), "wide": strings.Repeat("é", 200), "garbage": "a\xffb",
		"just fits": strings.Repeat("x", 256),
	} {
		ic := withRunningPod()
		policy.Next(ic, pod("a", failedByKubelet("Evicted", message)), noon)
		got := ic.Status.LastTermination.Message
		if len(got) > 256 || !utf8.ValidString(got) || got == "" {
			t.Errorf("%s: the message has %d bytes, valid UTF-8: %v", name, len(got), utf8.ValidString(got))
		}
		if name == "just fits" && got != message {
			t.Errorf("a message of 256 bytes was cut to %d", len(got))
		}
	}
}
