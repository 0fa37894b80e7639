package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// archiveOf returns a .tar.gz in the form that is published for envtest.
func archiveOf(t *testing.T, names ...string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	gz := gzip.NewWriter(&buffer)
	files := tar.NewWriter(gz)
	for _, name := range names {
		content := "#!/bin/sh\necho " + name + " was downloaded\n"
		check(t, files.WriteHeader(&tar.Header{
			Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg,
		}))
		_, err := files.Write([]byte(content))
		check(t, err)
	}
	check(t, files.Close())
	check(t, gz.Close())
	return buffer.Bytes()
}

// publisher serves an index and one archive.
type publisher struct {
	version string
	archive []byte
	hash    string // of the archive unless set
	stall   bool   // the archive never ends

	downloads int
}

func (p *publisher) start(t *testing.T) (indexURL string) {
	t.Helper()
	if p.hash == "" {
		sum := sha512.Sum512(p.archive)
		p.hash = hex.EncodeToString(sum[:])
	}
	stop := make(chan struct{})
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			_, _ = fmt.Fprintf(w, "releases:\n  %[1]s:\n    envtest-%[1]s-%[2]s-%[3]s.tar.gz:\n      hash: %[4]s\n"+
				"      selfLink: %[5]s/archive\n", p.version, runtime.GOOS, runtime.GOARCH, p.hash, server.URL)
			return
		}
		p.downloads++
		if p.stall {
			_, _ = w.Write(p.archive[:1])
			w.(http.Flusher).Flush()
			select {
			case <-stop:
			case <-r.Context().Done():
			}
			return
		}
		_, _ = w.Write(p.archive)
	}))
	t.Cleanup(func() { close(stop); server.Close() })
	return server.URL + "/index.yaml"
}

func TestDownload(t *testing.T) {
	ours := minorVersion() + ".5"
	good := archiveOf(t, Etcd, APIServer, Kubectl)
	tests := map[string]struct {
		reason string
		from   publisher
		need   []string
		want   string // the reason for skipping it; empty means success
	}{
		"good": {
			reason: "any patch of the minor version is accepted",
			from:   publisher{version: ours, archive: good},
		},
		"other version": {
			reason: "tests must not depend on the location",
			from:   publisher{version: "v1.36.2", archive: good},
			want:   "nothing of Kubernetes v1.37 is published",
		},
		"forged": {
			reason: "the checksum decides",
			from:   publisher{version: ours, archive: good, hash: strings.Repeat("0", 128)},
			want:   "checksum mismatch",
		},
		"not an archive": {
			reason: "as from a captive portal",
			from:   publisher{version: ours, archive: []byte("<html>")},
			want:   "reading the archive",
		},
		"truncated": {
			reason: "an incomplete program is unusable",
			from:   publisher{version: ours, archive: good[:len(good)/2]},
			want:   "reading the archive",
		},
		"incomplete": {
			reason: "a set is complete",
			from:   publisher{version: ours, archive: archiveOf(t, Etcd)},
			want:   "the archive lacks kube-apiserver",
		},
		"stalls": {
			reason: "there is another source",
			from:   publisher{version: ours, archive: good, stall: true},
			want:   "stalled",
		},
		"needs workloads": {
			reason: "no controller manager is published",
			from:   publisher{version: ours, archive: good},
			need:   programs,
			want:   "lacks kube-controller-manager",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var n reports
			cache := t.TempDir()
			need := tc.need
			if need == nil {
				need = []string{Etcd, APIServer}
			}
			f, err := newFinder(controlPlane, Options{
				Programs: need, Sources: []Source{Cache, Download}, CacheDir: cache, Env: noEnv, Progress: n.add,
			})
			check(t, err)
			f.indexURL = tc.from.start(t)
			f.stallTimeout = 50 * time.Millisecond
			set, err := f.find(t.Context())
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: error is %v, want one with %q", tc.reason, err, tc.want)
				}
				expectNothingBut(t, cache, "lock")
				return
			}
			check(t, err)
			got := output(t, set.Path(Etcd))
			if got != "etcd was downloaded" || set.Origin != "downloaded for envtest" {
				t.Errorf("%s: etcd prints %q, from %q", tc.reason, got, set.Origin)
			}
			if again, err := f.find(t.Context()); err != nil || again != set || tc.from.downloads != 1 {
				t.Errorf("the second time: got %v, %v after %d downloads, want one", again, err, tc.from.downloads)
			}
		})
	}
}

func TestDownloadServerUnreachable(t *testing.T) {
	useFakeGo(t, "")
	var n reports
	f, err := newFinder(controlPlane, Options{Programs: []string{Etcd}, CacheDir: t.TempDir(), Env: noEnv, Progress: n.add})
	check(t, err)
	server := httptest.NewServer(nil)
	f.indexURL = server.URL
	server.Close()
	set, err := f.find(t.Context())
	if err != nil || set.Origin != "built from source" {
		t.Errorf("got %v, %v, want a build", set, err)
	}
	if !strings.Contains(n.String(), "download: what is published for envtest is out of reach") {
		t.Errorf("no report explains the failed download:\n%s", &n)
	}
}
