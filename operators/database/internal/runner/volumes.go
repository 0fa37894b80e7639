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

// prepareVolume creates or updates a volume and returns its mount.
func (p *pod) prepareVolume(ctx context.Context, v *corev1.Volume) (mount, error) {
	if v.PersistentVolumeClaim != nil {
		return p.prepareClaim(ctx, v.PersistentVolumeClaim)
	}
	if v.Ephemeral != nil {
		return p.prepareClaim(ctx, &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.object.Name + "-" + v.Name})
	}
	source := filepath.Join(p.directory(), "volumes", v.Name)
	dir := filepath.Join(p.r.sandbox.files, source)
	if v.EmptyDir != nil {
		// MkdirAll applies the umask, Chmod does not.
		err := errors.Join(makePublicDir(dir), os.Chmod(dir, 0o777)) //nolint:gosec // shared by all users of the pod
		return mount{source: source}, errors.Join(err, p.setFSGroup(dir, 0o660))
	}
	files, err := p.projectFiles(ctx, projection(v))
	if err == nil {
		err = writeFiles(dir, files)
	}
	if err == nil {
		err = p.setFSGroup(dir, 0o440)
	}
	return mount{source: source, readOnly: true}, err
}

// prepareClaim returns the mount of a claim. The directory of a new claim looks like a new file system.
func (p *pod) prepareClaim(ctx context.Context, v *corev1.PersistentVolumeClaimVolumeSource) (mount, error) {
	claim, err := p.r.client.CoreV1().PersistentVolumeClaims(p.object.Namespace).Get(ctx, v.ClaimName, metav1.GetOptions{})
	if err != nil {
		return mount{}, err
	}
	source := "claims/" + string(claim.UID)
	dir := filepath.Join(p.r.sandbox.files, source)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(makePublicDir(dir), os.Mkdir(dir+"/lost+found", 0o700)); err != nil { // as on ext4
			return mount{}, err
		}
	}
	return mount{source: source, readOnly: v.ReadOnly}, p.setFSGroup(dir, 0o660)
}

// setFSGroup changes the group and the modes of a volume as a kubelet does for fsGroup.
func (p *pod) setFSGroup(dir string, mode fs.FileMode) error {
	s := p.object.Spec.SecurityContext
	if s == nil || s.FSGroup == nil {
		return nil
	}
	group := int(*s.FSGroup)
	always := s.FSGroupChangePolicy == nil || *s.FSGroupChangePolicy == corev1.FSGroupChangeAlways
	if !always && hasFSGroup(dir, group, mode) {
		return nil
	}
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := os.Lchown(name, -1, group); err != nil { //nolint:gosec // no container of the pod runs yet
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(name, info.Mode()|fsGroupMode(mode, info.IsDir())) //nolint:gosec // as above
	})
}

// fsGroupMode returns the mode bits that are added to a file or directory.
func fsGroupMode(mode fs.FileMode, directory bool) fs.FileMode {
	if directory {
		return mode | 0o110 | fs.ModeSetgid
	}
	return mode
}

// hasFSGroup reports whether the root of the volume has the group and the modes already.
func hasFSGroup(dir string, group int, mode fs.FileMode) bool {
	info, err := os.Stat(dir)
	want := fsGroupMode(mode, true)
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

// projection converts volumes with files from the API server to projected volumes.
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

// projectFiles reads the files of a volume. Tokens are not supported.
func (p *pod) projectFiles(ctx context.Context, from *corev1.ProjectedVolumeSource) (map[string]projected, error) {
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
		if err := addFiles(files, values, items, optional, from.DefaultMode); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// addFiles adds the values to the files, under the paths of the items or, without items, under their keys.
func addFiles(
	files map[string]projected, values map[string]string, items []corev1.KeyToPath, optional *bool, defaultMode *int32,
) error {
	mode := func(m *int32) fs.FileMode { return fs.FileMode(firstSet(m, defaultMode, new(int32(0o644)))) } //nolint:gosec // a mode
	if len(items) == 0 {
		for key, value := range values {
			files[key] = projected{value, mode(nil)}
		}
	}
	for _, item := range items {
		value, ok, err := lookup(values, nil, item.Key, optional)
		if err != nil {
			return err
		}
		if ok {
			files[item.Path] = projected{value, mode(item.Mode)}
		}
	}
	return nil
}

// writeFiles replaces the files of a volume atomically, as a kubelet does: they are links to files in ..data.
func writeFiles(dir string, files map[string]projected) error {
	if err := errors.Join(makePublicDir(dir), os.Chmod(dir, 0o777|fs.ModeSticky)); err != nil {
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
		errs = append(errs, makePublicDir(filepath.Dir(file)),
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
	for _, e := range entries { // dangling links
		if _, err := os.Stat(filepath.Join(dir, e.Name())); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(append(errs, err)...)
}

// makePublicDir creates a directory with mode 0755.
func makePublicDir(dir string) error {
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)) //nolint:gosec // not a secret
}

// replaceFile writes a file atomically.
func replaceFile(file, text string) error {
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil { //nolint:gosec // not a secret
		return err
	}
	return os.Rename(next, file)
}
