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

// rewatchPause is the pause after a failed watch.
const rewatchPause = time.Second

// A Table shows the objects of one kind like `kubectl get`, with their conditions.
type Table struct {
	// Kind is for example "ImmortalContainer".
	Kind string `json:"kind"`
	// Columns are the names of the columns. The columns of the kind's definition are between NAMESPACE and CONDITIONS.
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

// The columns of every table.
const (
	namespaceColumn  = "NAMESPACE"
	conditionsColumn = "CONDITIONS"
	// AgeColumn is the only column with cells that change without an update of the object.
	AgeColumn = "AGE"
)

// Tables lists the objects of the operators' own kinds, and workloads among the samples. It leaves out samples that are
// only configuration.
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
		if s.opts.WithoutOperators && apierrors.IsNotFound(err) {
			continue // it was installed and removed
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

// A shownKind is a kind with a table.
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
			if err != nil && (!s.opts.WithoutOperators || !meta.IsNoMatchError(err)) { // it may be installed later
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

// keyOf returns the key of a sample, with the namespace that ApplySamples uses.
func keyOf(u *unstructured.Unstructured, m *meta.RESTMapping) types.NamespacedName {
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if key.Namespace == "" && m.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = metav1.NamespaceDefault
	}
	return key
}

// worthWatching reports whether objects of the kind have a meaningful status: workloads do, and custom resources may.
func worthWatching(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apps", "batch":
		return true
	case "":
		return kind.Kind == "Pod"
	}
	return !scheme.Scheme.IsGroupRegistered(kind.Group)
}

// fetchTable requests the columns from the server, which can render every kind.
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

// conditions returns, for example, "Ready !Stalled". The prefix ! marks false conditions, ? unknown ones.
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

// Changes sends a value soon after an object shown by Tables has changed. Changes in quick succession may be merged.
// The channel is never closed.
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
	if s.opts.WithoutOperators {
		go s.watchNewKinds(ctx, begin)
	}
	return changes, nil
}

// watchNewKinds polls for kinds that are installed later.
func (s *Sandbox) watchNewKinds(ctx context.Context, found func([]*shownKind)) {
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

// watch sends a value for each event and after each start of the watch, since events in between may be lost.
func watch(ctx context.Context, objects metadata.ResourceInterface, changes chan<- struct{}) {
	notify := func() {
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
		notify()
		for range w.ResultChan() {
			notify()
		}
	}
}
