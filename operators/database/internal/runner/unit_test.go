//go:build linux

package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The cases are from the documentation of containers in the Kubernetes API.
func TestExpand(t *testing.T) {
	t.Parallel()
	e := environment{{Name: "A", Value: "1"}, {Name: "A", Value: "a"}, {Name: "EMPTY"}}
	for text, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "a", "x$(A)y$(A)": "xaya", "$(EMPTY)": "", "$(B)": "$(B)", "$$(A)": "$(A)",
		"$$$(A)": "$a", "$A": "$A", "$(A": "$(A", "$": "$", "100$$": "100$",
	} {
		if got := e.expand(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if diff := cmp.Diff([]string{"A=a", "EMPTY="}, e.list()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func state(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	type containers = []corev1.ContainerStatus
	waits := corev1.ContainerStatus{State: waiting("PodInitializing", "")}
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ready := running
	ready.Ready = true
	again := waits
	again.RestartCount = 1
	for name, c := range map[string]struct {
		initial, containers containers
		completed           bool
		phase               corev1.PodPhase
		initialized, ready  corev1.ConditionStatus
	}{
		"nothing has begun":    {containers{waits}, containers{waits}, false, "Pending", "False", "False"},
		"it is initialized":    {containers{state(0)}, containers{waits}, false, "Pending", "True", "False"},
		"initializing fails":   {containers{state(1)}, containers{waits}, true, "Failed", "False", "False"},
		"one is not ready":     {nil, containers{ready, running}, false, "Running", "True", "False"},
		"all are ready":        {nil, containers{ready, ready}, false, "Running", "True", "True"},
		"it is started again":  {nil, containers{again}, false, "Running", "True", "False"},
		"one of two has ended": {nil, containers{ready, state(0)}, false, "Running", "True", "False"},
		"all have succeeded":   {nil, containers{state(0), state(0)}, true, "Succeeded", "True", "False"},
		"one has failed":       {nil, containers{state(0), state(137)}, true, "Failed", "True", "False"},
	} {
		s := corev1.PodStatus{InitContainerStatuses: c.initial, ContainerStatuses: c.containers}
		summarize(&s, c.completed)
		got := map[corev1.PodConditionType]corev1.ConditionStatus{}
		for _, condition := range s.Conditions {
			got[condition.Type] = condition.Status
		}
		if s.Phase != c.phase || got[corev1.PodInitialized] != c.initialized || got[corev1.PodReady] != c.ready {
			t.Errorf("%s: %s, initialized %s, ready %s; want %s, %s, %s", name,
				s.Phase, got[corev1.PodInitialized], got[corev1.PodReady], c.phase, c.initialized, c.ready)
		}
	}
}

// A cluster IP leads to ready pods; a headless Service has their addresses.
func TestNetwork(t *testing.T) {
	t.Parallel()
	service := func(name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "db", Port: 5432}},
		}}
	}
	slice := func(service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Ports:      []discoveryv1.EndpointPort{{Name: new("db"), Port: new(int32(6000))}}, Endpoints: endpoints,
		}
	}
	pod := func(name, address string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, Hostname: &name, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}
	}
	services := []*corev1.Service{
		service("db", "10.0.0.1"), service("hl", "None"), service("off", "10.0.0.2"), service("name", ""),
	}
	slices := []*discoveryv1.EndpointSlice{
		slice("db", pod("a", "1.1.1.1", true), pod("b", "1.1.1.2", false)), slice("hl", pod("a", "1.1.1.1", true)),
		slice("off", pod("b", "1.1.1.2", false)),
	}
	if diff := cmp.Diff(map[string][]string{"10.0.0.1:5432": {"1.1.1.1:6000"}}, routes(services, slices)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const want = `127.0.0.1 localhost
1.1.1.1 hl hl.ns hl.ns.svc hl.ns.svc.cluster.local a.hl a.hl.ns a.hl.ns.svc a.hl.ns.svc.cluster.local
10.0.0.1 db db.ns db.ns.svc db.ns.svc.cluster.local
10.0.0.2 off off.ns off.ns.svc off.ns.svc.cluster.local
`
	if diff := cmp.Diff(want, hosts("ns", services, slices)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The files of a volume are replaced atomically, and removed keys disappear.
func TestWriteFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, files := range []map[string]projected{
		{"a": {"1", 0o640}, "b/c": {"2", 0o400}, "d": {"3", 0o644}}, {"a": {"4", 0o640}, "b/c": {"5", 0o400}},
	} {
		if err := writeFiles(dir, files); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(files)+2 { // ..data and its target
			t.Errorf("there are %v, %v", entries, err)
		}
		for name, want := range files {
			info, err := os.Stat(filepath.Join(dir, name))
			text, err2 := os.ReadFile(filepath.Join(dir, name))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if string(text) != want.text || info.Mode() != want.mode {
				t.Errorf("%s has %q and mode %v, want %v", name, text, info.Mode(), want)
			}
		}
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		want      []string
	}{
		"nothing said": {nil, nil, []string{
			"--reuid=0", "--regid=0", "--inh-caps=-all", "--clear-groups", "--bounding-set=-all,+audit_write,+chown,+dac_override," +
				"+fowner,+fsetid,+kill,+mknod,+net_bind_service,+setfcap,+setgid,+setpcap,+setuid,+sys_chroot",
		}},
		"restricted": {
			&corev1.PodSecurityContext{RunAsUser: new(int64(999)), FSGroup: new(int64(5)), RunAsNonRoot: new(true)},
			&corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CHOWN"}},
			},
			[]string{"--reuid=999", "--regid=999", "--inh-caps=-all", "--groups=5", "--no-new-privs", "--bounding-set=-all,+chown"},
		},
		"the container's own": {
			&corev1.PodSecurityContext{RunAsUser: new(int64(0))},
			&corev1.SecurityContext{RunAsUser: new(int64(7)), RunAsGroup: new(int64(8)), Capabilities: &corev1.Capabilities{
				Drop: []corev1.Capability{"ALL"},
			}},
			[]string{"--reuid=7", "--regid=8", "--inh-caps=-all", "--clear-groups", "--bounding-set=-all"},
		},
		"root where none may be": {&corev1.PodSecurityContext{RunAsNonRoot: new(true)}, nil, nil},
	} {
		got, err := identity(c.pod, c.container)
		if (err != nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// A result is reported after as many repetitions as the probe's threshold.
func TestRunProbe(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	answers := []error{no, no, nil, no, nil, nil, no, nil, no, no, no}
	var reported []bool
	err := runProbe(t.Context(), &corev1.Probe{SuccessThreshold: 2, FailureThreshold: 3}, func(*corev1.Probe) error {
		defer func() { answers = answers[1:] }()
		return answers[0]
	}, func(err error) bool {
		reported = append(reported, err == nil)
		return err == nil
	})
	if diff := cmp.Diff([]bool{true, false}, reported); diff != "" || !errors.Is(err, no) || len(answers) != 0 {
		t.Errorf("it reported %v and returned %v with %d results left", reported, err, len(answers))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runProbe(ctx, &corev1.Probe{InitialDelaySeconds: 100}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it returns %v", err)
	}
}

// A pod with an unsupported field fails the test.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	c := corev1.Container{Name: "c", Image: "docker.io/library/mariadb:11@sha256:0", Command: []string{"c"}}
	if err := unsupported(&corev1.PodSpec{Containers: []corev1.Container{c}}); err != nil {
		t.Error(err)
	}
	if got := imageOf(c.Image).user; got != "mysql" {
		t.Errorf("the user is %s", got)
	}
	sidecar := c
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	host := corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
	for _, spec := range []corev1.PodSpec{
		{HostNetwork: true},
		{Volumes: []corev1.Volume{host}},
		{InitContainers: []corev1.Container{sidecar}},
		{Containers: []corev1.Container{{Name: "c"}}},
	} {
		if unsupported(&spec) == nil {
			t.Errorf("it is run: %v", spec)
		}
	}
}
