package bundle

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

// markerName is operator-sdk's name of the markers.
const markerName = "operator-sdk:csv:customresourcedefinitions"

// typeMarker is the marker of a kind, fieldMarker the marker of a field.
type (
	typeMarker struct {
		DisplayName string     `marker:"displayName,optional"`
		Resources   [][]string `marker:"resources,optional"`
		Order       *int       `marker:"order,optional"`
	}
	fieldMarker struct {
		Type         string   `marker:"type"`
		DisplayName  string   `marker:"displayName,optional"`
		Path         string   `marker:"path,optional"`
		XDescriptors []string `marker:"xDescriptors,optional"`
		Order        *int     `marker:"order,optional"`
	}
)

// kindMarkers is the content of the markers of a kind, fieldMarkers the content of the markers of a field.
type (
	kindMarkers struct {
		displayName  string
		resources    []v1alpha1.APIResourceReference
		spec, status map[string]fieldMarkers // by path
	}
	fieldMarkers struct {
		displayName, description string
		widgets                  []string
	}
)

// readMarkers returns the markers of the types in an operator's folder api, by version and kind. A function in Python has no
// types: its resources are the kinds of its declaration.
func readMarkers(dir string) (map[string]kindMarkers, error) {
	if isFunction(dir) {
		return readDeclaration(filepath.Join(dir, declaration))
	}
	cfg := &packages.Config{Dir: dir, Env: append(os.Environ(), "GOWORK="+workspace(dir))}
	roots, err := loader.LoadRootsWithConfig(cfg, "./api/...")
	if err != nil {
		return nil, fmt.Errorf("reading the types: %w", err)
	}
	registry := &markers.Registry{}
	onType := markers.Must(markers.MakeDefinition(markerName, markers.DescribesType, typeMarker{}))
	onField := markers.Must(markers.MakeDefinition(markerName, markers.DescribesField, fieldMarker{}))
	if err := markers.RegisterAll(registry, onType, onField); err != nil {
		return nil, fmt.Errorf("registering the markers: %w", err)
	}
	collector := &markers.Collector{Registry: registry}
	all := map[string]kindMarkers{}
	for _, root := range roots {
		types := map[string]*markers.TypeInfo{}
		if err := markers.EachType(collector, root, func(info *markers.TypeInfo) { types[info.Name] = info }); err != nil {
			return nil, fmt.Errorf("reading the markers: %w", err)
		}
		for name, info := range types {
			values, ok := info.Markers[markerName]
			if !ok {
				continue
			}
			k := kindMarkers{spec: map[string]fieldMarkers{}, status: map[string]fieldMarkers{}}
			for _, value := range values {
				m, _ := value.(typeMarker) // by the marker's definition
				k.displayName = m.DisplayName
				k.resources = []v1alpha1.APIResourceReference{}
				for _, r := range m.Resources {
					const parts = 3
					if len(r) != parts {
						return nil, fmt.Errorf("type %s: resources are {{Kind,version,name}}, and one is %q", name, r)
					}
					k.resources = append(k.resources, v1alpha1.APIResourceReference{Kind: r[0], Version: r[1], Name: r[2]})
				}
			}
			k.walk(types, info, "")
			all[root.Name+"/"+name] = k
		}
	}
	return all, nil
}

// declaration is the file that describes a function in Python to homeostat-engine.
const declaration = "operator.yaml"

// isFunction reports whether the operator in a folder is a function in Python, which has no types in Go. An operator in Go
// may have a file of that name, too.
func isFunction(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "api")); err == nil {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, declaration))
	return err == nil
}

// readDeclaration returns the kinds that a declaration for homeostat-engine owns, by version and kind.
func readDeclaration(file string) (map[string]kindMarkers, error) {
	type object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	var declared struct {
		Kind object   `json:"kind"`
		Owns []object `json:"owns"`
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(data, &declared)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kinds of a function: %w", err)
	}
	k := kindMarkers{resources: []v1alpha1.APIResourceReference{}}
	for _, o := range declared.Owns {
		k.resources = append(k.resources, v1alpha1.APIResourceReference{Kind: o.Kind, Version: path.Base(o.APIVersion)})
	}
	return map[string]kindMarkers{path.Base(declared.Kind.APIVersion) + "/" + declared.Kind.Kind: k}, nil
}

// workspace returns the value of GOWORK for the operator in a folder: the workspace of that folder, in which an operator of
// another repository names a checkout of the SDK, or off.
func workspace(dir string) string {
	file, err := filepath.Abs(filepath.Join(dir, "go.work"))
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		return "off"
	}
	return file
}

// walk collects the markers of the fields of a type, and recursively of the types of these fields.
func (k *kindMarkers) walk(types map[string]*markers.TypeInfo, info *markers.TypeInfo, path string) {
	const deep = 5 // types can be recursive
	if strings.Count(path, ".") > deep {
		return
	}
	for i := range info.Fields {
		field := &info.Fields[i]
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == "" || tag == "-" {
			continue
		}
		at := strings.TrimPrefix(path+"."+tag, ".")
		for _, value := range field.Markers[markerName] {
			m, _ := value.(fieldMarker)
			part, below, _ := strings.Cut(at, ".")
			d := fieldMarkers{displayName: m.DisplayName, description: field.Doc, widgets: m.XDescriptors}
			if m.Path != "" {
				below = m.Path
			}
			if part == "status" || m.Type == "status" {
				k.status[below] = d
			} else {
				k.spec[below] = d
			}
		}
		if of, ok := types[typeName(field.RawField.Type)]; ok {
			k.walk(types, of, at)
		}
	}
}

// typeName returns the name of a type of this package, also of a pointer to it, and "" for all others.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
