package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// put pushes an unrelated image under a name.
func put(t *testing.T, ref string) {
	t.Helper()
	other, err := random.Image(8, 1)
	if err == nil {
		err = remote.Write(parse(t, ref), other)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkConflictsRejected expects a publication to push nothing if any artifact of its version exists with other content, and
// to report all of them. It removes them afterwards.
func checkConflictsRejected(f *fixture, publish []string, p *plan) {
	f.t.Helper()
	names := []string{p.chartRef(p.Charts[0]), p.chartRef(p.Charts[1])}
	for _, i := range p.Images {
		names = append(names, p.Prefix+i.Name+":"+i.Tags[0])
	}
	for _, ref := range names {
		put(f.t, ref)
	}
	f.git("tag", "--annotate", "--message", "Elsewhere", "sdk/v0.2.0")
	f.git("push", "--quiet", "origin", "sdk/v0.2.0", "HEAD~:refs/tags/v0.2.0")
	wants := []string{
		"nothing was pushed", "the tag v0.2.0 of origin is on ", "the tag sdk/v0.2.0 of origin is on " + p.Base[:12],
	}
	for _, ref := range names {
		wants = append(wants, ref+" is there already with sha256:")
	}
	err := run(f.t.Context(), publish, io.Discard)
	for _, want := range wants {
		checkError(f.t, "what others have published", err, want)
	}
	for _, i := range p.Images {
		ref := p.Prefix + i.Name + ":latest"
		if found, err := lookUp(f.t.Context(), ref); err != nil || found != nil {
			f.t.Errorf("%s is %v, %v: something was pushed", ref, found, err)
		}
	}
	f.git("push", "--quiet", "--delete", "origin", "sdk/v0.2.0", "v0.2.0")
	f.git("tag", "--delete", "sdk/v0.2.0")
	for _, ref := range names {
		if err := remote.Delete(parse(f.t, ref)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// checkPublish publishes a release whose version tag exists already, and again after an interruption. Then all artifacts
// exist. A complete release keeps the tags that a later release has moved.
func checkPublish(f *fixture, publish []string, p *plan) {
	f.t.Helper()
	latest := p.Prefix + p.Images[0].Name + ":latest"
	put(f.t, latest) // the one of a previous release
	for range 2 {
		if err := run(f.t.Context(), publish, io.Discard); err != nil {
			f.t.Fatal(err)
		}
		checkRegistry(f.t, p)
		f.git("push", "--quiet", "--delete", "origin", "sdk/v0.2.0") // as if interrupted before it
		for _, ref := range []string{p.Prefix + "catalog:v0.2.0", p.chartRef(p.Charts[1])} {
			if err := remote.Delete(parse(f.t, ref)); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	if err := run(f.t.Context(), publish, io.Discard); err != nil {
		f.t.Fatal(err)
	}
	put(f.t, latest)
	later := head(f.t, latest) // the one of a later release
	if err := run(f.t.Context(), publish, io.Discard); err != nil {
		f.t.Fatal(err)
	}
	checkTags(f, p)
	if got := head(f.t, latest); got != later {
		f.t.Errorf("a release that was complete makes %s %s again", latest, got)
	}
}

// checkTags expects the remote to have all tags.
func checkTags(f *fixture, p *plan) {
	f.t.Helper()
	for _, tag := range p.Tags {
		got := f.git("ls-remote", "origin", "refs/tags/"+tag.Name, "refs/tags/"+tag.Name+"^{}")
		if !strings.Contains(got, tag.Commit+"\trefs/tags/"+tag.Name) {
			f.t.Errorf("the tag %s is %q", tag.Name, got)
		}
	}
}
