package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// checkVersion rejects an invalid version, and a version that is not greater than each released one. Tags at the commit
// being released do not count.
func checkVersion(version string, tags []string, here func(tag string) bool) error {
	if version == "" {
		return errors.New("there is no version: say which, as VERSION=1.2.3")
	}
	if v := "v" + version; !semver.IsValid(v) || semver.Canonical(v) != v {
		return fmt.Errorf("%q is no version: write it as 1.2.3 or 1.2.3-rc.1", version)
	}
	for _, tag := range tags {
		released := tag[strings.LastIndexByte(tag, '/')+1:]
		if !semver.IsValid(released) || semver.Compare("v"+version, released) > 0 || tag == "v"+version && here(tag) {
			continue
		}
		return fmt.Errorf("version %s is not greater than %s, which the tag %s has released: choose a greater one",
			version, strings.TrimPrefix(released, "v"), tag)
	}
	return nil
}

// released returns the published versions, from the tags without a folder.
func released(tags []string) map[string]bool {
	all := map[string]bool{}
	for _, tag := range tags {
		if semver.IsValid(tag) {
			all[strings.TrimPrefix(tag, "v")] = true
		}
	}
	return all
}

// section returns the section of a version in a changelog in the format of keepachangelog.com.
func section(changelog, version string) (string, error) {
	var text strings.Builder
	found := false
	for line := range strings.Lines(changelog) {
		if strings.HasPrefix(line, "## ") || found && strings.HasPrefix(line, "[") && strings.Contains(line, "]: ") {
			if found {
				break
			}
			found = strings.HasPrefix(line, "## ["+version+"]")
			continue
		}
		if found {
			text.WriteString(line)
		}
	}
	notes := strings.TrimSpace(text.String())
	if !found || notes == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing of version %s: write what it brings below the line ## [%s] - YYYY-MM-DD",
			version, version)
	}
	return notes + "\n", nil
}

// checkBase compares the base of an operator's bundle with the version.
func checkBase(root, operator, version string) error {
	files, err := filepath.Glob(filepath.Join(root, operator, "config", "manifests", "bases", "*.clusterserviceversion.yaml"))
	if err != nil || len(files) == 0 {
		return err
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return fmt.Errorf("reading what a bundle is made of: %w", err)
	}
	var base struct {
		Metadata struct{ Name string }
		Spec     struct{ Version string }
	}
	if err := yaml.Unmarshal(data, &base); err != nil {
		return fmt.Errorf("reading %s: %w", files[0], err)
	}
	relative := strings.TrimPrefix(filepath.ToSlash(files[0]), filepath.ToSlash(root)+"/")
	if base.Spec.Version != version || !strings.HasSuffix(base.Metadata.Name, ".v"+version) {
		return fmt.Errorf("%s is %s with spec.version %s, and version %s is released: change both there, and run make bundle",
			relative, base.Metadata.Name, base.Spec.Version, version)
	}
	return nil
}

// checkImages compares the built images with those in the committed bundles.
func checkImages(committed string, built []image, version string) error {
	digests := map[string]string{}
	for line := range strings.Lines(committed) {
		name, digest, ok := strings.Cut(strings.TrimSpace(line), "@")
		if ok && !strings.HasPrefix(line, "#") {
			digests[name[strings.LastIndexByte(name, '/')+1:]] = digest
		}
	}
	for _, i := range built {
		if digest, ok := digests[i.Name]; digest != i.Digest {
			if !ok {
				digest = "nothing"
			}
			return fmt.Errorf("bundle/images.txt has %s of %s, and its image of version %s is %s, made with %s: "+
				"run make images VERSION=%s with the Go that go.work names, write what it prints to bundle/images.txt, "+
				"and run make bundle", digest, i.Name, version, i.Digest, runtime.Version(), version)
		}
	}
	return nil
}
