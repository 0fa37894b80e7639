package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	certDirFlag = "webhook-cert-dir"
	// mountedCertDir is where OLM mounts the Secret with the certificate of a webhook server.
	mountedCertDir = "/tmp/k8s-webhook-server/serving-certs"
	// certificateInterval is the interval at which a changed certificate is looked for. A kubelet needs up to a minute.
	certificateInterval = 5 * time.Second
)

// certificateSecret returns the Secret that the container mounts as the certificate of its webhook server, or nil.
func (e *podProcess) certificateSecret() *corev1.SecretVolumeSource {
	isMounted := func(m corev1.VolumeMount) bool { return m.MountPath == mountedCertDir }
	mount := slices.IndexFunc(e.container.VolumeMounts, isMounted)
	if mount < 0 {
		return nil
	}
	name := e.container.VolumeMounts[mount].Name
	volume := slices.IndexFunc(e.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if volume < 0 {
		return nil
	}
	return e.pod.Spec.Volumes[volume].Secret
}

// writeCertificate writes the files of a Secret into a folder, and returns the folder. Unchanged files are not written.
func (e *podProcess) writeCertificate(ctx context.Context, source *corev1.SecretVolumeSource) (dir string, err error) {
	dir = e.file(".certificate")
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: e.pod.Namespace, Name: source.SecretName}
	if err := e.pods.client.Get(ctx, key, secret); err != nil {
		return "", fmt.Errorf("mounting the certificate of the webhooks: %w", err)
	}
	files := map[string]string{} // keys by file name
	for _, item := range source.Items {
		files[item.Path] = item.Key
	}
	if len(source.Items) == 0 {
		for key := range secret.Data {
			files[key] = key
		}
	}
	errs := []error{os.MkdirAll(dir, 0o700)}
	for name, key := range files {
		file := filepath.Join(dir, filepath.Base(name))
		if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, secret.Data[key]) {
			errs = append(errs, os.WriteFile(file, secret.Data[key], 0o600))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "", fmt.Errorf("mounting the certificate of the webhooks: %w", err)
	}
	return dir, nil
}

// refreshCertificate updates the files of a Secret until stop is closed.
func (e *podProcess) refreshCertificate(source *corev1.SecretVolumeSource) {
	last := ""
	for {
		select {
		case <-e.stop:
			return
		case <-time.After(certificateInterval):
		}
		ctx, cancel := context.WithTimeout(e.pods.ctx, certificateInterval)
		_, err := e.writeCertificate(ctx, source)
		cancel()
		switch {
		case err == nil:
			last = ""
		case err.Error() != last && e.pods.ctx.Err() == nil:
			last = err.Error()
			e.pods.report("%s: %s", e.name, last)
		}
	}
}
