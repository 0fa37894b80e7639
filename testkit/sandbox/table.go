package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
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

// Tables asks the cluster for the objects of the operators' own kinds, and for those samples of other kinds that are worth
// watching: workloads, and not what only configures them.
func (s *Sandbox) Tables(ctx context.Context) ([]Table, error) {
	kinds, err := s.kinds()
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	var tables []Table
	for _, k := range kinds {
		table, err := fetchTable(ctx, core.RESTClient(), k.mapping)
		if s.opts.Bare && apierrors.IsNotFound(err) {
			continue // it was installed, and removed
		}
		if err != nil {
			return nil, err
		}
		if k.only != nil {
			table.Rows = slices.DeleteFunc(table.Rows, func(r Row) bool {
				return !slices.Contains(k.only, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
			})
		}
		tables = append(tables, table)
	}
	return tables, nil
}

// A shownKind is one that there is a table of.
type shownKind struct {
	mapping *meta.RESTMapping
	only    []types.NamespacedName // nil means all objects
}

// kinds returns the kinds to show, once each: the operators' own first.
func (s *Sandbox) kinds() ([]*shownKind, error) {
	var kinds []*shownKind
	find := func(kind schema.GroupKind) (*shownKind, error) {
		mapping, err := s.client.RESTMapper().RESTMapping(kind)
		if err != nil {
			return nil, fmt.Errorf("finding kind %s: %w", kind.Kind, err)
		}
		for _, k := range kinds {
			if k.mapping.GroupVersionKind == mapping.GroupVersionKind {
				return k, nil
			}
		}
		kinds = append(kinds, &shownKind{mapping: mapping})
		return kinds[len(kinds)-1], nil
	}
	for _, p := range s.opts.Projects {
		for _, u := range p.Objects {
			if u.GetKind() != "CustomResourceDefinition" {
				continue
			}
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
				return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", u.GetName(), err)
			}
			_, err := find(schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind})
			if err != nil && (!s.opts.Bare || !meta.IsNoMatchError(err)) { // it may be installed later
				return nil, err
			}
		}
	}
	own := len(kinds)
	for _, u := range s.Samples() {
		if !worthWatching(u.GroupVersionKind().GroupKind()) {
			continue
		}
		k, err := find(u.GroupVersionKind().GroupKind())
		if err != nil {
			return nil, err
		}
		if !slices.Contains(kinds[:own], k) {
			k.only = append(k.only, keyOf(u, k.mapping))
		}
	}
	return kinds, nil
}

// keyOf is where a sample goes: see ApplySamples.
func keyOf(u *unstructured.Unstructured, m *meta.RESTMapping) types.NamespacedName {
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if key.Namespace == "" && m.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = metav1.NamespaceDefault
	}
	return key
}

// worthWatching says whether the status of a sample tells something: that of a workload does, and maybe that of a custom
// resource.
func worthWatching(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apps", "batch":
		return true
	case "":
		return kind.Kind == "Pod"
	}
	return !scheme.Scheme.IsGroupRegistered(kind.Group)
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
	kinds, err := s.kinds()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	changes := make(chan struct{}, 1)
	watched := map[schema.GroupVersionResource]bool{}
	begin := func(kinds []*shownKind) {
		for _, k := range kinds {
			if r := k.mapping.Resource; !watched[r] {
				watched[r] = true
				go watch(ctx, client.Resource(r), changes)
			}
		}
	}
	begin(kinds)
	if s.opts.Bare {
		go s.lookForKinds(ctx, begin)
	}
	return changes, nil
}

// lookForKinds finds what somebody installs.
func (s *Sandbox) lookForKinds(ctx context.Context, found func([]*shownKind)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rewatchPause):
		}
		if kinds, err := s.kinds(); err == nil {
			found(kinds)
		}
	}
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
