package fault_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
)

func TestForeignObject(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	metadata := object{
		"namespace": "ns", "name": "a", "labels": object{"app.kubernetes.io/managed-by": "another-owner"},
		"annotations": object{"testkit.homeostat.dev/owner": "another-owner"},
	}
	for name, test := range map[string]struct {
		reason, content string
		want            object
	}{
		"ConfigMap": {
			"the metadata and the data are its own",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"$NAMESPACE","uid":"1","labels":{"a":"b"},` +
				`"ownerReferences":[{}],"finalizers":["x"]},"data":{"k":"v"},"immutable":true}`,
			object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": object{"owner": "another-owner"}},
		},
		"Secret": {
			"a type prescribes keys",
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"$NAMESPACE"},"type":"kubernetes.io/tls",` +
				`"data":{"k":"dg=="}}`,
			object{
				"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls",
				"data": object{"k": "dg=="},
			},
		},
		"Service": {
			"addresses and ports are assigned",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"$NAMESPACE"},"spec":{"clusterIP":"10.0.0.1",` +
				`"clusterIPs":["10.0.0.1"],"ports":[{"port":80,"nodePort":30000}]},"status":{}}`,
			object{
				"apiVersion": "v1", "kind": "Service", "metadata": metadata,
				"spec": object{"ports": []any{object{"port": int64(80)}}},
			},
		},
		"Headless": {
			"its address is a setting",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"$NAMESPACE"},"spec":{"clusterIP":"None",` +
				`"clusterIPs":["None"]}}`,
			object{
				"apiVersion": "v1", "kind": "Service", "metadata": metadata,
				"spec": object{"clusterIP": "None", "clusterIPs": []any{"None"}},
			},
		},
		"Job": {
			"the selector has the UID",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","namespace":"$NAMESPACE"},"spec":{"selector":{},` +
				`"template":{"metadata":{"labels":{"controller-uid":"1"}},"spec":{"nodeName":"n"}}}}`,
			object{
				"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
				"spec": object{"suspend": true, "template": object{"metadata": object{}, "spec": object{"nodeName": "n"}}},
			},
		},
		"StatefulSet": {
			"its pods would use the claims",
			`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"a","namespace":"$NAMESPACE"},"spec":{"replicas":2}}`,
			object{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": object{"replicas": int64(0)}},
		},
		"DaemonSet": {
			"no node has the label",
			`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a","namespace":"$NAMESPACE"}}`,
			object{
				"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata,
				"spec": object{"template": object{"spec": object{
					"nodeSelector": object{"testkit.homeostat.dev/runs": "another-owner"},
				}}},
			},
		},
		"Pod": {
			"it is not scheduled",
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"$NAMESPACE"},"spec":{"nodeName":"n"}}`,
			object{
				"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
				"spec": object{"schedulingGates": []any{object{"name": "testkit.homeostat.dev/another-owner"}}},
			},
		},
	} {
		got, err := fault.ForeignObject(baseline.Child{Content: []byte(test.content)}, "ns")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got.Object); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, test.reason, diff)
		}
	}
	if _, err := fault.ForeignObject(baseline.Child{Name: "configmaps/a"}, "ns"); err == nil {
		t.Error("a child without content has no object of another owner")
	}
}
