package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// missingTags returns the tags that a git remote lacks. It rejects tags that exist at another commit, whether they are
// plain, annotated or signed.
func missingTags(ctx context.Context, root, remote string, tags []tag) (missing []tag, err error) {
	out, err := command{dir: root}.run(ctx, "git", "ls-remote", "--tags", remote)
	if err != nil {
		return nil, err
	}
	there := map[string]string{}
	for line := range strings.Lines(out) {
		commit, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		// An annotated tag is an object, and its commit has a line of its own.
		ref, peeled := strings.CutSuffix(strings.TrimPrefix(ref, "refs/tags/"), "^{}")
		if peeled || there[ref] == "" {
			there[ref] = commit
		}
	}
	var problems []error
	for _, t := range tags {
		switch at := there[t.Name]; at {
		case "":
			missing = append(missing, t)
		case t.Commit:
		default:
			problems = append(problems, fmt.Errorf("the tag %s of %s is on %.12s, and this release has it on %.12s: "+
				"a user may have fetched it, so choose a greater version", t.Name, remote, at, t.Commit))
		}
	}
	return missing, errors.Join(problems...)
}

// pushed returns the names of images and charts that the registry has with the content of the release. It rejects names with
// the version that have other content. Other tags, like latest, move with each release.
func (p *publication) pushed(ctx context.Context, plan *plan) (map[string]bool, error) {
	there, problems := map[string]bool{}, []error{}
	compare := func(ref, want string, of func(*remote.Descriptor) (string, error), moves bool) error {
		found, err := lookUp(ctx, ref)
		if err != nil || found == nil {
			return err
		}
		got, err := of(found)
		if err != nil {
			return fmt.Errorf("reading what the registry has of %s: %w", ref, err)
		}
		there[ref] = got == want
		if got != want && !moves {
			problems = append(problems, fmt.Errorf("%s is there already with %s, and in this release it has %s: a user may "+
				"have pulled it, so choose a greater version", ref, got, want))
		}
		return nil
	}
	for _, i := range plan.Images {
		for _, tag := range i.Tags {
			ref := plan.Prefix + i.Name + ":" + tag
			if err := compare(ref, i.Digest, digestOf, plan.moves(tag)); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range plan.Charts {
		data, err := os.ReadFile(filepath.Join(p.folder, filepath.FromSlash(c.Name)))
		if err != nil {
			return nil, fmt.Errorf("reading a chart: %w", err)
		}
		digest, _, _ := v1.SHA256(bytes.NewReader(data)) // a bytes.Reader returns no error
		if err := compare(plan.chartRef(c), digest.String(), archiveOf, false); err != nil {
			return nil, err
		}
	}
	return there, errors.Join(problems...)
}

// lookUp returns the content of a name in a registry, or nil. It uses the credentials of oci.Push.
func lookUp(ctx context.Context, image string) (*remote.Descriptor, error) {
	ref, err := name.NewTag(image)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be the name of an image: %w", image, err)
	}
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if answer := (*transport.Error)(nil); errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil, nil //nolint:nilnil // nil means that the registry has no such name
	}
	if err != nil {
		return nil, fmt.Errorf("asking the registry what it has of %s, for which docker login stores who asks: %w", image, err)
	}
	return found, nil
}

func digestOf(found *remote.Descriptor) (string, error) { return found.Digest.String(), nil }

// archiveOf returns the digest of the archive of a chart.
func archiveOf(found *remote.Descriptor) (string, error) {
	manifest, err := v1.ParseManifest(bytes.NewReader(found.Manifest))
	if err != nil || len(manifest.Layers) == 0 {
		return found.Digest.String(), err // without an archive it is another artifact, not a chart
	}
	return manifest.Layers[0].Digest.String(), nil
}
