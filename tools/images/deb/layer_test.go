package deb

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// archiveOf returns the archive of a package. Regular files contain their name.
func archiveOf(t *testing.T, entries ...tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h.Name = "./" + h.Name
		h.Uname = "builder"
		h.ModTime = time.Now()
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func regular(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}
}

func dir(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}
}

// contents returns a line for each entry of a layer: path, mode, owner, and target or text.
func contents(t *testing.T, layer io.Reader) []string {
	t.Helper()
	var all []string
	for r := tar.NewReader(layer); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		text, err2 := io.ReadAll(r)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if h.ModTime.Unix() != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s is of %q, and from %v", h.Name, h.Uname, h.ModTime)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %o %d %s%s", h.Name, h.Mode, h.Uid, h.Linkname, text)))
	}
}

func TestLayer(t *testing.T) {
	t.Parallel()
	var low, high bytes.Buffer
	lower := NewLayer(&low, nil)
	for _, err := range []error{
		lower.Add(Entry{Path: "/run/lock", Mode: 0o1777}),
		lower.AddAliases(),
		lower.addArchive(archiveOf(t, dir("bin"), regular("bin/sh"), dir("lib"), dir("etc"), dir("usr"), dir("usr/share"))),
		lower.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"run/ 755 0", "run/lock/ 1777 0", "usr/ 755 0", "usr/bin/ 755 0", "bin 777 0 usr/bin", "usr/sbin/ 755 0",
		"sbin 777 0 usr/sbin", "usr/lib/ 755 0", "lib 777 0 usr/lib", "usr/lib64/ 755 0", "lib64 777 0 usr/lib64", "var/ 755 0",
		"var/run 777 0 ../run", "var/lock 777 0 ../run/lock", "usr/bin/sh 644 0 ./bin/sh", "etc/ 755 0", "usr/share/ 755 0",
	}
	if diff := cmp.Diff(want, contents(t, &low)); diff != "" {
		t.Errorf("the lower layer: -want +got:\n%s", diff)
	}
	l := NewLayer(&high, lower, "usr/lib/big")
	for _, err := range []error{
		l.Add(Entry{Path: "etc/conf", Data: "ours"}, Entry{Path: "data", Owner: 999}),
		l.addArchive(archiveOf(t, dir("etc"), regular("etc/conf"), regular("lib/a"), dir("usr/lib/big"), regular("usr/lib/big/b"),
			tar.Header{Typeflag: tar.TypeLink, Name: "lib/c", Linkname: "./lib/a"},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "lib/d", Linkname: "a", Mode: 0o777},
			dir("usr/share/man"), regular("usr/share/man/x"), dir("usr/share/doc"), dir("usr/share/doc/p"),
			regular("usr/share/doc/p/README"), regular("usr/share/doc/p/copyright"))),
		l.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want = []string{
		"etc/conf 644 0 ours", "data/ 755 999", "usr/lib/a 644 0 ./lib/a", "usr/lib/c 0 0 usr/lib/a", "usr/lib/d 777 0 a",
		"usr/share/doc/ 755 0", "usr/share/doc/p/ 755 0", "usr/share/doc/p/copyright 644 0 ./usr/share/doc/p/copyright",
	}
	if diff := cmp.Diff(want, contents(t, &high)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What would be another system than that of the packages is an error.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for want, entries := range map[string][]tar.Header{
		"a is in another package, too":         {regular("a"), regular("a")},
		"b/c is not in a folder":               {regular("b/c")},
		"d is a link to e, which is not there": {{Typeflag: tar.TypeLink, Name: "d", Linkname: "./e"}},
		"f is neither a file":                  {{Typeflag: tar.TypeFifo, Name: "f"}},
		"g/h is not in a folder of this or another package": {
			{Typeflag: tar.TypeSymlink, Name: "g", Linkname: "/"}, regular("g/h"),
		},
		"low is in another package, too":       {regular("low")},
		"usr/bin/x is in another package, too": {dir("usr"), dir("usr/bin"), regular("usr/bin/x"), regular("bin/x")},
	} {
		lower := NewLayer(io.Discard, nil)
		if err := lower.addArchive(archiveOf(t, regular("low"))); err != nil {
			t.Fatal(err)
		}
		l := NewLayer(io.Discard, lower)
		if err := l.addArchive(archiveOf(t, entries...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	l := NewLayer(io.Discard, nil)
	err := l.Add(Entry{Path: "a", Data: "x"}, Entry{Path: "/a", Data: "y"})
	if err == nil || !strings.Contains(err.Error(), "two entries a") {
		t.Errorf("%v for two entries", err)
	}
	if err := NewLayer(io.Discard, nil).addArchive(strings.NewReader(strings.Repeat("x", 1024))); err == nil {
		t.Error("an archive that is none is accepted")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	out := "Reading package lists...\n'scheme://host/pool/z_1%3a2.deb' zlib1g_1%3a1.2.13.dfsg-1_amd64.deb 86684 MD5Sum:ec\n" +
		"'scheme://host/b' bash_5.2.15-2+b13_amd64.deb 1490652 \n"
	want := []Package{
		{Name: "bash", Version: "5.2.15-2+b13", File: "bash_5.2.15-2+b13_amd64.deb"},
		{Name: "zlib1g", Version: "1:1.2.13.dfsg-1", File: "zlib1g_1%3a1.2.13.dfsg-1_amd64.deb"},
	}
	got, err := parse(out)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for _, bad := range []string{"'u' bash.deb 1 \n", "'u' a_%zz_b.deb 1\n"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A missing program is named in one sentence.
func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	const want = "these images are made of Debian packages, which needs apt-get, and this machine does not have it"
	for _, err := range []error{Available(), func() error { _, err := State(t.Context()); return err }()} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
