package main

import (
	"bytes"
	"fmt"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panels returns the diagrams: the costs of one object over the number of objects.
func panels() []panel {
	return []panel{
		{"requests per object", func(r result) float64 { return r.RequestsPerObject }},
		{"wall time per object, ms", func(r result) float64 { return 1000 * r.WallSeconds / float64(r.N) }},
		{"CPU per object, ms", func(r result) float64 { return 1000 * r.OperatorCPUSeconds / float64(r.N) }},
		{"memory, MiB", func(r result) float64 { return r.RSSBytes / mib }},
	}
}

type panel struct {
	title string
	value func(result) float64
}

// drawSVG returns the panels as an SVG image, two in a row.
func drawSVG(results []result) ([]byte, error) {
	const columns, width, height = 2, 22 * vg.Centimeter, 16 * vg.Centimeter
	all := panels()
	plots := make([][]*plot.Plot, 0, len(all)/columns)
	for i, p := range all {
		drawn, err := p.plot(results, i == 0)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", p.title, err)
		}
		if i%columns == 0 {
			plots = append(plots, nil)
		}
		plots[len(plots)-1] = append(plots[len(plots)-1], drawn)
	}
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: len(plots), Cols: columns, PadX: vg.Centimeter, PadY: vg.Centimeter}
	for row, canvases := range plot.Align(plots, tiles, draw.New(canvas)) {
		for column, c := range canvases {
			plots[row][column].Draw(c)
		}
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("writing the picture: %w", err)
	}
	return out.Bytes(), nil
}

func (p panel) plot(results []result, legend bool) (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text = p.title
	drawn.X.Label.Text = "objects"
	drawn.Y.Min = 0
	drawn.X.Scale = plot.LogScale{}
	drawn.X.Tick.Marker = ticks(sizes(results))
	for i, c := range candidates() {
		var points plotter.XYs
		for _, r := range results {
			if r.Candidate == c.name {
				points = append(points, plotter.XY{X: float64(r.N), Y: p.value(r)})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color = plotutil.Color(i)
		dots.Color = plotutil.Color(i)
		dots.Shape = plotutil.Shape(i)
		drawn.Add(line, dots)
		if legend {
			drawn.Legend.Add(c.name, line, dots)
		}
	}
	return drawn, nil
}

// ticks returns a tick for each number of objects.
func ticks(sizes []int) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, 0, len(sizes))
	for _, n := range sizes {
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
	}
	return ticks
}
