package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

// An unreachable download has to fail soon, because another source exists.
const (
	indexTimeout = 4 * time.Second
	stallTimeout = 20 * time.Second
)

// published are the programs in the archives for envtest.
var published = []string{Etcd, APIServer, Kubectl}

// fromDownload downloads the archives that the controller-tools project publishes for envtest.
func (f *finder) fromDownload(ctx context.Context) (Set, error) {
	if missing := missingPrograms(f.required, published); len(missing) > 0 {
		return Set{}, skipQuietly("what is published for envtest lacks %s", strings.Join(missing, ", "))
	}
	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: f.indexURL}
	version, item, err := newestPublished(ctx, client)
	if err != nil {
		return Set{}, err
	}
	dir := f.downloadDir()
	return f.exclusively(ctx, dir, func(temp string) error {
		stop := f.report.startPhase(fmt.Sprintf("downloading etcd and kube-apiserver v%s for envtest, in MB", version), 0)
		defer stop()
		archive, err := f.fetch(ctx, client, version, item)
		if err != nil {
			return err
		}
		out := filepath.Join(temp, "out")
		if err := unpack(archive, out); err != nil {
			return skip("unpacking what was downloaded: %v", withAdvice(err, temp))
		}
		programsOf := map[string]string{}
		for _, program := range published {
			programsOf[program] = program
		}
		return withAdvice(store(out, dir, "downloaded for envtest", programsOf), f.cacheDir)
	})
}

// newestPublished returns the newest published patch of KubernetesVersion.
func newestPublished(ctx context.Context, client *remote.HTTPClient) (versions.Concrete, versions.PlatformItem, error) {
	none := versions.PlatformItem{}
	asking, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	sets, err := client.ListVersions(asking)
	if ctx.Err() != nil {
		return versions.Concrete{}, none, fmt.Errorf("asking what is published for envtest: %w", ctx.Err())
	}
	if err != nil {
		return versions.Concrete{}, none, skip("what is published for envtest is out of reach (%v)", err)
	}
	for _, set := range sets { // newest first
		if !strings.HasPrefix("v"+set.Version.String(), minorVersion()+".") {
			continue
		}
		for _, item := range set.Platforms {
			if item.OS == runtime.GOOS && item.Arch == runtime.GOARCH {
				return set.Version, item, nil
			}
		}
	}
	return versions.Concrete{}, none, skip("nothing of Kubernetes %s is published for envtest on %s",
		minorVersion(), platform())
}

// fetch downloads an archive into memory and verifies its checksum. It aborts a stalled download.
func (f *finder) fetch(
	ctx context.Context, client *remote.HTTPClient, version versions.Concrete, item versions.PlatformItem,
) (io.Reader, error) {
	fetching, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := time.AfterFunc(f.stallTimeout, cancel)
	defer stall.Stop()
	w := &countingWriter{wrote: func(total int) {
		const megabyte = 1 << 20
		stall.Reset(f.stallTimeout)
		f.report.count(total / megabyte)
	}}
	err := client.GetVersion(fetching, version, item, w)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("downloading for envtest: %w", ctx.Err())
	case fetching.Err() != nil:
		return nil, skip("the download of v%s stalled for %v", version, f.stallTimeout)
	case err != nil:
		return nil, skip("downloading v%s: %v", version, err)
	default:
		return &w.data, nil
	}
}

type countingWriter struct {
	data  bytes.Buffer
	wrote func(total int)
}

// Write never fails.
func (w *countingWriter) Write(data []byte) (int, error) {
	n, _ := w.data.Write(data)
	w.wrote(w.data.Len())
	return n, nil
}

// unpack extracts the programs from any folder of a .tar.gz. All of them must be there.
func unpack(archive io.Reader, dir string) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	gz, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("reading the archive: %w", err)
	}
	files := tar.NewReader(gz)
	missing := slices.Clone(published)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		i := slices.Index(missing, path.Base(header.Name))
		if i < 0 || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(filepath.Join(dir, missing[i]), files); err != nil {
			return err
		}
		missing = slices.Delete(missing, i, i+1)
	}
	if len(missing) > 0 {
		return fmt.Errorf("the archive lacks %s", strings.Join(missing, ", "))
	}
	return nil
}

func writeFile(name string, content io.Reader) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(name), err)
	}
	return nil
}
