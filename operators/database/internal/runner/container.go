//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// unsupported returns an error for the fields of a pod that the runner does not support and cannot ignore.
func unsupported(spec *corev1.PodSpec) error {
	var errs []error
	refuse := func(when bool, format string, args ...any) {
		if when {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(spec.HostNetwork || spec.HostPID || spec.HostIPC, "it wants a namespace of its node")
	for _, c := range allContainers(spec) {
		refuse(c.RestartPolicy != nil, "container %s is a sidecar, or has a policy of its own", c.Name)
		refuse(len(c.Command) == 0, "container %s has no command, and there is no image that has one", c.Name)
		refuse(len(c.EnvFrom) > 0, "container %s takes all of an object as variables", c.Name)
		for _, m := range c.VolumeMounts {
			refuse(m.SubPath != "" || m.SubPathExpr != "", "container %s mounts a part of volume %s", c.Name, m.Name)
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			refuse(probe != nil && probe.Exec == nil, "a probe of container %s is no command", c.Name)
		}
		h := c.Lifecycle
		refuse(h != nil && h.PostStart != nil, "container %s has a hook after its start", c.Name)
		refuse(h != nil && h.PreStop != nil && h.PreStop.Exec == nil, "the hook of container %s is no command", c.Name)
	}
	for _, v := range spec.Volumes {
		s := v.VolumeSource
		s.PersistentVolumeClaim = nil
		s.EmptyDir = nil
		s.ConfigMap = nil
		s.Secret = nil
		s.Projected = nil
		s.Ephemeral = nil
		refuse(s != corev1.VolumeSource{}, "volume %s is of another kind", v.Name)
	}
	return errors.Join(errs...)
}

// allContainers returns all containers of a pod, in their order.
func allContainers(spec *corev1.PodSpec) []corev1.Container {
	return slices.Concat(spec.InitContainers, spec.Containers)
}

// processSpec returns the specification and the command of the next process of a container.
func (p *pod) processSpec(c *corev1.Container) (processSpec, []string, error) {
	p.mu.Lock()
	p.runs++
	run := p.runs
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.activeCtx, apiTimeout)
	defer cancel()
	env, err := p.environment(ctx, c)
	if err != nil {
		return processSpec{}, nil, err
	}
	b := processSpec{
		layer: fmt.Sprintf("%s/layers/%s-%d", p.directory(), c.Name, run), network: p.network, hostname: p.hostname(),
		image: imageOf(c.Image), dir: c.WorkingDir, env: env.list(),
	}
	if b.dir == "" {
		b.dir = "/"
	}
	if b.identity, err = identity(p.object.Spec.SecurityContext, c.SecurityContext); err != nil {
		return processSpec{}, nil, err
	}
	if b.mounts, err = p.mounts(ctx, c); err != nil {
		return processSpec{}, nil, err
	}
	if s := c.SecurityContext; s != nil && s.ReadOnlyRootFilesystem != nil {
		b.readOnly = *s.ReadOnlyRootFilesystem
	}
	if err := makePublicDir(p.file("logs")); err != nil {
		return processSpec{}, nil, err
	}
	b.log, err = os.OpenFile(p.file("logs/"+c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return b, env.expandAll(slices.Concat(c.Command, c.Args)), err
}

func (p *pod) hostname() string {
	if p.object.Spec.Hostname != "" {
		return p.object.Spec.Hostname
	}
	return p.object.Name
}

// mounts returns the pod's volumes and the mounts that every container has.
func (p *pod) mounts(ctx context.Context, c *corev1.Container) ([]mount, error) {
	// Any user of the container may write to it.
	message := p.file("termination/" + c.Name)
	if err := errors.Join(makePublicDir(filepath.Dir(message)), os.WriteFile(message, nil, 0o600),
		os.Chmod(message, 0o666)); err != nil { //nolint:gosec // as above
		return nil, fmt.Errorf("making the file for the message: %w", err)
	}
	mounts := []mount{
		{source: p.directory() + "/etc", target: etc, readOnly: true},
		{source: p.directory() + "/termination/" + c.Name, target: c.TerminationMessagePath},
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		v, err := p.prepareVolume(ctx, &p.object.Spec.Volumes[i])
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		mounts = append(mounts, mount{source: v.source, target: filepath.Clean(m.MountPath), readOnly: v.readOnly || m.ReadOnly})
	}
	// Parents are mounted before the volumes below them.
	slices.SortStableFunc(mounts, func(a, b mount) int { return strings.Count(a.target, "/") - strings.Count(b.target, "/") })
	return mounts, nil
}

// capabilities is the default set of container runtimes.
var capabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod", "net_bind_service", "setfcap", "setgid",
	"setpcap", "setuid", "sys_chroot",
}

// identity returns the arguments of setpriv for the user, the groups and the capabilities of a container.
func identity(podContext *corev1.PodSecurityContext, context *corev1.SecurityContext) ([]string, error) {
	if podContext == nil {
		podContext = &corev1.PodSecurityContext{}
	}
	if context == nil {
		context = &corev1.SecurityContext{}
	}
	user := firstSet(context.RunAsUser, podContext.RunAsUser, new(int64(0)))
	group := firstSet(context.RunAsGroup, podContext.RunAsGroup, new(int64(0)))
	if user == imageUser && context.RunAsGroup == nil && podContext.RunAsGroup == nil {
		group = imageUser // as in /etc/passwd
	}
	if firstSet(context.RunAsNonRoot, podContext.RunAsNonRoot, new(false)) && user == 0 {
		return nil, errors.New("container has runAsNonRoot and image will run as root")
	}
	args := []string{"--reuid=" + strconv.FormatInt(user, 10), "--regid=" + strconv.FormatInt(group, 10), "--inh-caps=-all"}
	var groups []string
	for _, id := range podContext.SupplementalGroups {
		groups = append(groups, strconv.FormatInt(id, 10))
	}
	if podContext.FSGroup != nil {
		groups = append(groups, strconv.FormatInt(*podContext.FSGroup, 10))
	}
	if len(groups) > 0 {
		args = append(args, "--groups="+strings.Join(groups, ","))
	} else {
		args = append(args, "--clear-groups")
	}
	if e := context.AllowPrivilegeEscalation; e != nil && !*e {
		args = append(args, "--no-new-privs")
	}
	bounds := append([]string{"-all"}, allowed(context.Capabilities)...)
	return append(args, "--bounding-set="+strings.Join(bounds, ",+")), nil
}

// allowed returns the capabilities of a container.
func allowed(wanted *corev1.Capabilities) []string {
	all := slices.Clone(capabilities)
	if wanted == nil {
		return all
	}
	name := func(c corev1.Capability) string { return strings.TrimPrefix(strings.ToLower(string(c)), "cap_") }
	for _, c := range wanted.Drop {
		all = slices.DeleteFunc(all, func(has string) bool { return c == "ALL" || has == name(c) })
	}
	for _, c := range wanted.Add {
		all = append(all, name(c))
	}
	return all
}

// firstSet returns the first value that is not nil.
func firstSet[T any](values ...*T) T {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	panic("the last value is a default")
}
