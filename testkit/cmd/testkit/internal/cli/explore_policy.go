package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/rbac"
	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// policyFile is the name of the file with the operator's roles.
const policyFile = "rbac.json"

// A policy holds the operator's permissions.
type policy struct {
	account string
	file    *fstest.MapFile
}

// readPolicy reads the roles of the operator.
func readPolicy(paths []string, account string) (*policy, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		read, err := scenario.ReadObjects(path)
		if err != nil {
			return nil, firstOf(err)
		}
		objects = append(objects, read...)
	}
	parsed, err := rbac.Parse(objects)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "), err)
	}
	p := &policy{}
	if p.account, err = parsed.ServiceAccountName(account); err != nil {
		return nil, fmt.Errorf("%s: %w: name one with --service-account", strings.Join(paths, ", "), err)
	}
	p.file, err = encode(objects)
	return p, err
}

// encode returns a file with objects.
func encode(objects []*unstructured.Unstructured) (*fstest.MapFile, error) {
	var data []byte
	for _, u := range objects {
		one, err := json.Marshal(u)
		if err != nil {
			return nil, fmt.Errorf("encoding %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		data = append(data, one...)
	}
	return &fstest.MapFile{Data: data}, nil
}

// allNamespacesNote says which objects an operator of all namespaces sees.
func allNamespacesNote(resources []string) string {
	if len(resources) == 0 {
		return ""
	}
	return fmt.Sprintf("the operator asks for objects of all namespaces (%s): each run shows it those of its own alone",
		strings.Join(resources, ", "))
}
