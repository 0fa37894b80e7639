package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// rewatchPause is how long a watch that cannot be opened is left alone.
const rewatchPause = time.Second

// A Table shows the objects of one kind as `kubectl get` would, with their conditions.
type Table struct {
	// Kind is for example "ImmortalContainer".
	Kind string `json:"kind"`
	// Columns are the names of the columns; those of the kind's definition stand between NAME and CONDITIONS.
	Columns []string `json:"columns"`
	// Rows are the objects, in the server's order.
	Rows []Row `json:"rows"`
}

// A Row is one object.
type Row struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Cells match Table.Columns.
	Cells []string `json:"cells"`
}

// The columns that every table has.
const (
	namespaceColumn  = "NAMESPACE"
	conditionsColumn = "CONDITIONS"
	// AgeColumn is the one column whose cells change by themselves.
	AgeColumn = "AGE"
)

// Tables asks the cluster for the objects of the operators' own kinds and of the samples'.
func (s *Sandbox) Tables(ctx context.Context) ([]Table, error) {
	mappings, err := s.kinds()
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	var tables []Table
	for _, m := range mappings {
		table, err := fetchTable(ctx, core.RESTClient(), m)
		if err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	return tables, nil
}

// kinds returns the kinds to show, once each.
func (s *Sandbox) kinds() ([]*meta.RESTMapping, error) {
	var kinds []schema.GroupVersionKind
	for _, p := range s.opts.Projects {
		for _, u := range p.Objects {
			if u.GetKind() != "CustomResourceDefinition" {
				continue
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
				return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", u.GetName(), err)
			}
			kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
		}
		for _, u := range p.Samples {
			kinds = append(kinds, schema.GroupVersionKind{Group: u.GroupVersionKind().Group, Kind: u.GetKind()})
		}
	}
	var mappings []*meta.RESTMapping
	var seen []schema.GroupVersionKind
	for _, kind := range kinds {
		if slices.Contains(seen, kind) {
			continue
		}
		seen = append(seen, kind)
		mapping, err := s.client.RESTMapper().RESTMapping(kind.GroupKind())
		if err != nil {
			return nil, fmt.Errorf("finding kind %s: %w", kind.Kind, err)
		}
		mappings = append(mappings, mapping)
	}
	return mappings, nil
}

// fetchTable lets the server render the columns: it knows them for every kind.
func fetchTable(ctx context.Context, c rest.Interface, m *meta.RESTMapping) (Table, error) {
	path := []string{"/apis", m.Resource.Group, m.Resource.Version, m.Resource.Resource}
	if m.Resource.Group == "" {
		path = []string{"/api", m.Resource.Version, m.Resource.Resource}
	}
	data, err := c.Get().AbsPath(path...).Param("includeObject", "Object").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	if err != nil {
		return Table{}, fmt.Errorf("listing %s: %w", m.Resource.Resource, err)
	}
	var answer metav1.Table
	if err := json.Unmarshal(data, &answer); err != nil {
		return Table{}, fmt.Errorf("decoding the list of %s: %w", m.Resource.Resource, err)
	}
	return newTable(m.GroupVersionKind.Kind, &answer)
}

func newTable(kind string, answer *metav1.Table) (Table, error) {
	table := Table{Kind: kind, Columns: []string{namespaceColumn}}
	var shown []int
	for i, column := range answer.ColumnDefinitions {
		if column.Priority == 0 {
			shown = append(shown, i)
			table.Columns = append(table.Columns, strings.ToUpper(column.Name))
		}
	}
	table.Columns = append(table.Columns, conditionsColumn)
	for _, r := range answer.Rows {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Object.Raw, &u.Object); err != nil {
			return Table{}, fmt.Errorf("decoding a row of %s: %w", kind, err)
		}
		row := Row{Namespace: u.GetNamespace(), Name: u.GetName(), Cells: []string{u.GetNamespace()}}
		for _, i := range shown {
			row.Cells = append(row.Cells, cell(r.Cells[i]))
		}
		row.Cells = append(row.Cells, conditions(u))
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

func cell(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// conditions is for example "Ready !Stalled": what is not true is marked, by ! if it is false and ? if it is unknown.
func conditions(u *unstructured.Unstructured) string {
	var words []string
	for _, c := range readiness.Conditions(u) {
		switch c.Status {
		case metav1.ConditionTrue:
			words = append(words, c.Type)
		case metav1.ConditionFalse:
			words = append(words, "!"+c.Type)
		case metav1.ConditionUnknown:
			words = append(words, "?"+c.Type)
		}
	}
	return strings.Join(words, " ")
}

// Changes sends something soon after an object has changed that Tables shows. Changes in quick succession may be told
// of once. The channel is never closed.
func (s *Sandbox) Changes(ctx context.Context) (<-chan struct{}, error) {
	mappings, err := s.kinds()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	changes := make(chan struct{}, 1)
	for _, m := range mappings {
		go watch(ctx, client.Resource(m.Resource), changes)
	}
	return changes, nil
}

// watch tells of each event, and of each time it starts anew, for then it may have overlooked some.
func watch(ctx context.Context, objects metadata.ResourceInterface, changes chan<- struct{}) {
	tell := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	for ctx.Err() == nil {
		w, err := objects.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(rewatchPause):
			}
			continue
		}
		tell()
		for range w.ResultChan() {
			tell()
		}
	}
}
