package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// packaging says what archives of charts are to have.
type packaging struct {
	folder   string // where they are written; it is made if there is none
	version  string // of the charts and of the images that they install; empty means what the charts say
	images   string // what comes before the names of the images, for example registry/team/; empty means what the charts say
	umbrella string // the name of a chart with all others in it; empty means that there is none
}

// pack writes the archives of the charts of operators, and that of their umbrella, and returns their names. Nothing in an
// archive says when it was written.
func (p packaging) pack(operators []string) ([]string, error) {
	if p.version != "" {
		if _, err := semver.StrictNewVersion(p.version); err != nil {
			return nil, fmt.Errorf("%q is no version of a chart: write it as 1.2.3 or 1.2.3-rc.1", p.version)
		}
	}
	var charts []*chart.Chart
	for _, dir := range operators {
		c, err := p.load(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		charts = append(charts, c)
	}
	if err := os.MkdirAll(p.folder, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for the archives: %w", err)
	}
	files, err := p.save(charts...)
	if err != nil || p.umbrella == "" {
		return files, err
	}
	all, err := umbrella(p.umbrella, charts)
	if err != nil {
		return nil, err
	}
	more, err := p.save(all)
	return append(files, more...), err
}

// load reads the chart of an operator, and makes it one of the version and the images that are wanted.
func (p packaging) load(dir string) (*chart.Chart, error) {
	c, err := loader.LoadDir(filepath.Join(dir, "chart"))
	if err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	if p.version != "" {
		c.Metadata.Version, c.Metadata.AppVersion = p.version, p.version
	}
	if p.images == "" {
		return c, nil
	}
	image, _ := c.Values["image"].(map[string]any)
	old, _ := image["repository"].(string)
	repository := p.images + old[strings.LastIndexByte(old, '/')+1:]
	for _, file := range c.Raw { // of which Helm archives values.yaml, with its comments
		if file.Name != chartutil.ValuesfileName {
			continue
		}
		before, after := "\n  repository: "+old+"\n", "\n  repository: "+repository+"\n"
		if bytes.Count(file.Data, []byte(before)) != 1 {
			return nil, errors.New("values.yaml has no line with image.repository")
		}
		file.Data = bytes.Replace(file.Data, []byte(before), []byte(after), 1)
	}
	return c, nil
}

func (p packaging) save(charts ...*chart.Chart) (files []string, err error) {
	for _, c := range charts {
		file, err := chartutil.Save(c, p.folder)
		if err == nil {
			err = withoutTimes(file)
		}
		if err != nil {
			return nil, fmt.Errorf("writing the archive of %s: %w", c.Name(), err)
		}
		files = append(files, file)
	}
	return files, nil
}

// withoutTimes takes from an archive what Helm writes into it of the time, so that two of the same chart are the same.
func withoutTimes(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err //nolint:wrapcheck // save does
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err //nolint:wrapcheck // save does
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	zipped.Extra, zipped.Comment = unzipped.Extra, unzipped.Comment // by which Helm knows its own
	w := tar.NewWriter(zipped)
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err //nolint:wrapcheck // save does
		}
		content, err := io.ReadAll(r)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: header.Name, Mode: header.Mode, Size: header.Size})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return err //nolint:wrapcheck // save does
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		return err //nolint:wrapcheck // save does
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:wrapcheck // save does
}
