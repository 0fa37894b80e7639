//go:build linux

package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volume makes a volume, or brings it up to date, and says where it is.
func (p *pod) volume(ctx context.Context, v *corev1.Volume) (mount, error) {
	if v.PersistentVolumeClaim != nil {
		return p.claim(ctx, v.PersistentVolumeClaim)
	}
	source := filepath.Join(p.directory(), "volumes", v.Name)
	dir := filepath.Join(p.r.sandbox.files, source)
	if v.EmptyDir != nil {
		// A umask has no say in it.
		err := errors.Join(public(dir), os.Chmod(dir, 0o777)) //nolint:gosec // everybody's
		return mount{source: source}, errors.Join(err, p.hand(dir, 0o660))
	}
	files, err := p.project(ctx, projection(v))
	if err == nil {
		err = writeFiles(dir, files)
	}
	if err == nil {
		err = p.hand(dir, 0o440)
	}
	return mount{source: source, readOnly: true}, err
}

// claim finds the directory of a claim, which is as a new file system when the claim is.
func (p *pod) claim(ctx context.Context, v *corev1.PersistentVolumeClaimVolumeSource) (mount, error) {
	claim, err := p.r.client.CoreV1().PersistentVolumeClaims(p.object.Namespace).Get(ctx, v.ClaimName, metav1.GetOptions{})
	if err != nil {
		return mount{}, err
	}
	source := "claims/" + string(claim.UID)
	dir := filepath.Join(p.r.sandbox.files, source)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(public(dir), os.Mkdir(dir+"/lost+found", 0o700)); err != nil { // as ext4 has it
			return mount{}, err
		}
	}
	return mount{source: source, readOnly: v.ReadOnly}, p.hand(dir, 0o660)
}

// hand does with a volume what a kubelet does for the pod's fsGroup: all files get that group, and it may do what mode says.
func (p *pod) hand(dir string, mode fs.FileMode) error {
	s := p.object.Spec.SecurityContext
	if s == nil || s.FSGroup == nil {
		return nil
	}
	group := int(*s.FSGroup)
	always := s.FSGroupChangePolicy == nil || *s.FSGroupChangePolicy == corev1.FSGroupChangeAlways
	if !always && handed(dir, group, mode) {
		return nil
	}
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(name, -1, group); err != nil { //nolint:gosec // no container of the pod runs yet, and none else is harmed
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(name, info.Mode()|granted(mode, info.IsDir())) //nolint:gosec // as above
	})
}

// granted is what is added to the mode of a file or a directory.
func granted(mode fs.FileMode, directory bool) fs.FileMode {
	if directory {
		return mode | 0o110 | fs.ModeSetgid
	}
	return mode
}

// handed says whether hand was there before, as far as the root tells.
func handed(dir string, group int, mode fs.FileMode) bool {
	info, err := os.Stat(dir)
	want := granted(mode, true)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Gid) == group && info.Mode()&want == want
}

// A projected file has a name within its volume.
type projected struct {
	text string
	mode fs.FileMode
}

// projection makes of every kind of volume that has files from the API server a list of sources.
func projection(v *corev1.Volume) *corev1.ProjectedVolumeSource {
	switch s := v.VolumeSource; {
	case s.ConfigMap != nil:
		return &corev1.ProjectedVolumeSource{DefaultMode: s.ConfigMap.DefaultMode, Sources: []corev1.VolumeProjection{{
			ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: s.ConfigMap.LocalObjectReference, Items: s.ConfigMap.Items, Optional: s.ConfigMap.Optional,
			},
		}}}
	case s.Secret != nil:
		return &corev1.ProjectedVolumeSource{DefaultMode: s.Secret.DefaultMode, Sources: []corev1.VolumeProjection{{
			Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.Secret.SecretName},
				Items:                s.Secret.Items, Optional: s.Secret.Optional,
			},
		}}}
	default:
		return s.Projected
	}
}

// project reads the files of a volume. There are no tokens: nobody can use them here.
func (p *pod) project(ctx context.Context, from *corev1.ProjectedVolumeSource) (map[string]projected, error) {
	files := map[string]projected{}
	for _, s := range from.Sources {
		var values map[string]string
		var items []corev1.KeyToPath
		var optional *bool
		var err error
		switch {
		case s.ConfigMap != nil:
			items, optional = s.ConfigMap.Items, s.ConfigMap.Optional
			values, err = p.configMap(ctx, s.ConfigMap.Name, optional)
		case s.Secret != nil:
			items, optional = s.Secret.Items, s.Secret.Optional
			values, err = p.secret(ctx, s.Secret.Name, optional)
		}
		if err != nil {
			return nil, err
		}
		if err := place(files, values, items, optional, from.DefaultMode); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// place adds the values to the files, all of them under their keys unless there are items.
func place(
	files map[string]projected, values map[string]string, items []corev1.KeyToPath, optional *bool, defaultMode *int32,
) error {
	mode := func(m *int32) fs.FileMode { return fs.FileMode(first(m, defaultMode, new(int32(0o644)))) } //nolint:gosec // a mode
	if len(items) == 0 {
		for key, value := range values {
			files[key] = projected{value, mode(nil)}
		}
	}
	for _, item := range items {
		value, ok, err := pick(values, nil, item.Key, optional)
		if err != nil {
			return err
		}
		if ok {
			files[item.Path] = projected{value, mode(item.Mode)}
		}
	}
	return nil
}

// writeFiles replaces the files of a volume all at once, as a kubelet does: they are links by way of ..data.
func writeFiles(dir string, files map[string]projected) error {
	if err := errors.Join(public(dir), os.Chmod(dir, 0o777|fs.ModeSticky)); err != nil {
		return err
	}
	version, err := os.MkdirTemp(dir, "..version")
	if err != nil {
		return err
	}
	before, _ := os.Readlink(dir + "/..data")
	errs := []error{os.Chmod(version, 0o755)} //nolint:gosec // as a kubelet makes it
	for name, f := range files {
		file := filepath.Join(version, name)
		top, _, _ := strings.Cut(name, "/")
		errs = append(errs, public(filepath.Dir(file)),
			os.WriteFile(file, []byte(f.text), 0o600), os.Chmod(file, f.mode))
		if _, err := os.Lstat(filepath.Join(dir, top)); err != nil {
			errs = append(errs, os.Symlink("..data/"+top, filepath.Join(dir, top)))
		}
	}
	errs = append(errs, os.Symlink(filepath.Base(version), dir+"/..next"), os.Rename(dir+"/..next", dir+"/..data"))
	if before != "" {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, before)))
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries { // links that lead nowhere now
		if _, err := os.Stat(filepath.Join(dir, e.Name())); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, err)...)
}

// public makes a directory that everybody reads.
func public(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)) //nolint:gosec // as it says
}

// replace writes a file that others read meanwhile: they see all of the old text or all of the new.
func replace(file, text string) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil { //nolint:gosec // everybody reads it
		return err
	}
	return os.Rename(next, file)
}
