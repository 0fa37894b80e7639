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

// packaging configures the archives of charts.
type packaging struct {
	folder   string // output folder; it is created if it does not exist
	version  string // of the charts and of the images that they install; empty means the charts' own
	images   string // the prefix of the image names, for example registry/team/; empty means the charts' own
	umbrella string // the name of a chart that contains all others; empty means no such chart
}

// pack writes the archives of the charts of operators, and of their umbrella, and returns their names. The archives contain
// no time.
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

// load reads the chart of an operator, and sets its version and its images.
func (p packaging) load(dir string) (*chart.Chart, error) {
	c, err := loader.LoadDir(filepath.Join(dir, "chart"))
	if err != nil {
		return nil, fmt.Errorf("reading the chart, which make generate writes: %w", err)
	}
	if p.version != "" {
		c.Metadata.Version = p.version
		c.Metadata.AppVersion = p.version
	}
	if p.images == "" {
		return c, nil
	}
	image, _ := c.Values["image"].(map[string]any)
	old, _ := image["repository"].(string)
	repository := p.images + old[strings.LastIndexByte(old, '/')+1:]
	for _, file := range c.Raw { // Helm archives values.yaml from Raw, with its comments
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
			err = removeTimes(file)
		}
		if err != nil {
			return nil, fmt.Errorf("writing the archive of %s: %w", c.Name(), err)
		}
		files = append(files, file)
	}
	return files, nil
}

// removeTimes removes the times that Helm writes into an archive, so that packaging is reproducible.
func removeTimes(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	// Helm identifies its archives by these.
	zipped.Extra = unzipped.Extra
	zipped.Comment = unzipped.Comment
	w := tar.NewWriter(zipped)
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: header.Name, Mode: header.Mode, Size: header.Size})
		}
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
