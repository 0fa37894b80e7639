package reference_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
)

func TestCollect(t *testing.T) {
	t.Parallel()
	type refs = []reference.Ref
	for name, tc := range map[string]struct {
		spec, reason string
		options      reference.Options
		want         refs
	}{
		"a volume": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x}]}], volumes: [{name: v, configMap: {name: a}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", All: true, Required: true}}, reason: "every key becomes a file",
		},
		"items of a volume": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x}]}],
				volumes: [{name: v, configMap: {name: a, items: [{key: k, path: p}]}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", Keys: keys("k!"), Required: true}}, reason: "no other key becomes a file",
		},
		"a volume with a subPath": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /etc/nginx/nginx.conf, subPath: nginx.conf}]}],
				volumes: [{name: v, configMap: {name: a}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", Keys: keys("nginx.conf"), Required: true}}, reason: "no other file is seen",
		},
		"items of a volume with a subPath": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x, subPath: dir}]}],
				volumes: [{name: v, configMap: {name: a, items: [{key: k, path: dir/p}, {key: l, path: q}]}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", Keys: keys("k!"), Required: true}}, reason: "what is in the folder is seen",
		},
		"a volume that is mounted twice": {
			spec: `{initContainers: [{name: i, volumeMounts: [{name: v, mountPath: /x}]}],
				containers: [{name: c, volumeMounts: [{name: v, mountPath: /y, subPath: k}]}],
				volumes: [{name: v, configMap: {name: a}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", All: true, Required: true}}, reason: "the init container sees all of it",
		},
		"a volume with a subPath that is computed": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x, subPathExpr: $(POD_NAME)}]}],
				volumes: [{name: v, configMap: {name: a}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", All: true, Required: true}}, reason: "it may be any file",
		},
		"a volume without a mount": {
			spec: `{volumes: [{name: v, configMap: {name: a}}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", All: true, Required: true}}, reason: "an injected container may mount it",
		},
		"an optional volume": {
			spec: `{volumes: [{name: v, secret: {secretName: a, optional: true}}]}`,
			want: refs{{Kind: "Secret", Name: "a", All: true}}, reason: "pods start without it",
		},
		"a projected volume": {
			spec: `{volumes: [{name: v, projected: {sources: [{configMap: {name: a, items: [{key: k, path: p}]}},
				{secret: {name: b, optional: true}}, {serviceAccountToken: {path: t}}]}}]}`,
			want: refs{
				{Kind: "ConfigMap", Name: "a", Keys: keys("k!"), Required: true}, {Kind: "Secret", Name: "b", All: true},
			}, reason: "each source counts by itself",
		},
		"envFrom": {
			spec:   `{containers: [{name: c, envFrom: [{configMapRef: {name: a}}, {secretRef: {name: b, optional: true}}]}]}`,
			want:   refs{{Kind: "ConfigMap", Name: "a", All: true, Required: true}, {Kind: "Secret", Name: "b", All: true}},
			reason: "every key becomes a variable",
		},
		"env": {
			spec: `{containers: [{name: c, env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: k}}},
				{name: B, valueFrom: {configMapKeyRef: {name: a, key: l, optional: true}}},
				{name: C, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: D, value: plain}]}]}`,
			want: refs{
				{Kind: "ConfigMap", Name: "a", Keys: keys("k!", "l"), Required: true},
				{Kind: "Secret", Name: "s", Keys: keys("k!"), Required: true},
			}, reason: "these keys and no others",
		},
		"init containers and sidecars": {
			spec: `{initContainers: [{name: i, envFrom: [{configMapRef: {name: a}}]},
				{name: s, restartPolicy: Always, env: [{name: A, valueFrom: {configMapKeyRef: {name: b, key: k}}}]}]}`,
			want: refs{
				{Kind: "ConfigMap", Name: "a", All: true, Required: true},
				{Kind: "ConfigMap", Name: "b", Keys: keys("k!"), Required: true},
			}, reason: "they are as much of the pod as the others",
		},
		"a whole and a key": {
			spec: `{containers: [{name: c, envFrom: [{configMapRef: {name: a, optional: true}}],
				env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: k}}}]}]}`,
			want: refs{{Kind: "ConfigMap", Name: "a", All: true, Keys: keys("k!"), Required: true}}, reason: "it includes the key",
		},
		"more that are named": {
			options: reference.Options{ConfigMaps: []string{"b", "a"}, Secrets: []string{"a"}},
			want: refs{
				{Kind: "ConfigMap", Name: "a", All: true, Required: true},
				{Kind: "ConfigMap", Name: "b", All: true, Required: true},
				{Kind: "Secret", Name: "a", All: true, Required: true},
			}, reason: "the order is that of kinds and names",
		},
		"without Secrets": {
			spec:    `{containers: [{name: c, envFrom: [{configMapRef: {name: a}}, {secretRef: {name: a}}]}]}`,
			options: reference.Options{Secrets: []string{"b"}, NoSecrets: true},
			want:    refs{{Kind: "ConfigMap", Name: "a", All: true, Required: true}}, reason: "the operator may not read them",
		},
		"ignored": {
			spec: `{containers: [{name: c,
				envFrom: [{configMapRef: {name: a}}, {secretRef: {name: b}}, {configMapRef: {name: c}}]}]}`,
			options: reference.Options{Ignore: []string{"a", "b"}},
			want:    refs{{Kind: "ConfigMap", Name: "c", All: true, Required: true}}, reason: "names go for both kinds",
		},
		"hot reload": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x}], envFrom: [{configMapRef: {name: b}}]}],
				volumes: [{name: v, configMap: {name: a}}]}`,
			options: reference.Options{HotReload: []string{"a", "b"}},
			want:    refs{{Kind: "ConfigMap", Name: "b", All: true, Required: true}}, reason: "variables stay as they are",
		},
		"hot reload of a subPath": {
			spec: `{containers: [{name: c, volumeMounts: [{name: v, mountPath: /x}, {name: v, mountPath: /y, subPath: k}]}],
				volumes: [{name: v, configMap: {name: a}}]}`,
			options: reference.Options{HotReload: []string{"a"}},
			want:    refs{{Kind: "ConfigMap", Name: "a", Keys: keys("k"), Required: true}},
			reason:  "a file that is mounted by itself stays as it was",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := &corev1.PodTemplateSpec{}
			if err := yaml.UnmarshalStrict([]byte(`{"spec": `+orEmpty(tc.spec)+`}`), template); err != nil {
				t.Fatal(err)
			}
			for i := range tc.want {
				if tc.want[i].Keys == nil {
					tc.want[i].Keys = keys()
				}
			}
			if diff := cmp.Diff(tc.want, reference.Collect(template, tc.options)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// keys returns keys by name; an exclamation mark means that the key is required.
func keys(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		if name[len(name)-1] == '!' {
			all[name[:len(name)-1]] = true
			continue
		}
		all[name] = false
	}
	return all
}

func orEmpty(spec string) string {
	if spec == "" {
		return "{}"
	}
	return spec
}
