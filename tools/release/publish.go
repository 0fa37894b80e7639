package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// A publication pushes the output of a rehearsal.
type publication struct {
	root, tools string
	folder      string // of the rehearsal
	prefix      string // the prefix of all image names: that of the rehearsal
	remote      string // of git
	out         io.Writer
}

// publish pushes the images, the charts and finally the tags. It is idempotent: artifacts that exist with the same content
// are skipped, so an interrupted publication can be repeated. If any artifact of the version exists with other content,
// nothing is pushed.
func (p *publication) publish(ctx context.Context) error {
	if err := checkSums(p.folder); err != nil {
		return err
	}
	plan, err := readPlan(p.folder)
	if err != nil {
		return err
	}
	if plan.Prefix != p.prefix {
		return fmt.Errorf("%s was rehearsed for %s, and its bundles and charts name that: rehearse it for %s",
			p.folder, plan.Prefix, p.prefix)
	}
	tags, dir, err := p.tags(ctx, plan)
	defer func() { _ = os.RemoveAll(dir) }()
	if err != nil {
		return err
	}
	missing, refused := missingTags(ctx, p.root, p.remote, plan.Tags)
	there, err := p.pushed(ctx, plan)
	if err := errors.Join(refused, err); err != nil {
		return fmt.Errorf("nothing was pushed: %w", err)
	}
	if len(missing) == 0 { // it is complete, and latest may belong to a later release
		plan.dropMovingTags()
	}
	for _, i := range plan.Images {
		if err := p.pushImage(ctx, plan, i, there); err != nil {
			return err
		}
	}
	if err := p.pushCharts(ctx, plan, there); err != nil {
		return err
	}
	if err := tags.push(ctx, p.root, p.remote, missing); err != nil {
		return fmt.Errorf("everything but the tags is published; publish again when this is solved: %w", err)
	}
	for _, t := range plan.Tags {
		p.say("%s %s", t.Commit, t.Name)
	}
	return nil
}

func (p *publication) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// tags creates the commit of the release again, and expects it to equal the rehearsed one.
func (p *publication) tags(ctx context.Context, plan *plan) (*scratchRepository, string, error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, "", fmt.Errorf("making a folder: %w", err)
	}
	s, err := newScratchRepository(ctx, p.root, dir)
	if err != nil {
		return nil, dir, err
	}
	if s.base != plan.Base {
		return nil, dir, fmt.Errorf("%s was rehearsed from commit %.12s, and this is %.12s: check that one out, or rehearse "+
			"this one", p.folder, plan.Base, s.base)
	}
	commit, err := s.commitModules(ctx, filepath.Join(p.folder, "modules", "files"), plan.Version, plan.Modules)
	if err == nil && commit != plan.Commit {
		err = fmt.Errorf("the commit of the release is %.12s, and was %.12s when it was rehearsed: rehearse it again",
			commit, plan.Commit)
	}
	return s, dir, err
}

func (p *publication) pushImage(ctx context.Context, plan *plan, i image, there map[string]bool) error {
	content, err := oci.Read(filepath.Join(p.folder, filepath.FromSlash(i.Folder)))
	if err != nil {
		return err
	}
	if len(i.Tags) == 0 {
		return errors.New("image " + i.Name + " has no tag")
	}
	for _, tag := range i.Tags {
		ref := plan.Prefix + i.Name + ":" + tag
		if !there[ref] {
			if _, err := oci.Push(ctx, content, ref); err != nil {
				return err
			}
		}
		p.say("%s@%s", ref, i.Digest)
	}
	return nil
}

func (p *publication) pushCharts(ctx context.Context, plan *plan, there map[string]bool) error {
	var files []string
	for _, c := range plan.Charts {
		if !there[plan.chartRef(c)] {
			files = append(files, filepath.Join(p.folder, filepath.FromSlash(c.Name)))
		}
	}
	if len(files) == 0 {
		return nil
	}
	at := command{dir: filepath.Join(p.tools, "tools/charts"), env: []string{"GOWORK=off"}}
	out, err := at.run(ctx, "go", append([]string{"run", ".", "push", "-to", plan.chartPrefix()}, files...)...)
	if err == nil {
		p.say("%s", out)
	}
	return err
}
