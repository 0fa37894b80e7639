package desired_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// samples is the folder of the sample manifests.
const samples = "../../config/samples"

func TestPodGolden(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, sample string }{
		"article": {"the manifest of the founding article gives the pod that it describes", "example.yaml"},
		"full":    {"every setting has its place in the pod", "full.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := yaml.Marshal(desired.Pod(read(t, filepath.Join(samples, tc.sample))))
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s, but (-want +got; `go test -update` accepts):\n%s", tc.reason, diff)
			}
		})
	}
}

// A new field of the specification that podSpec does not read would be accepted without an effect.
func TestEverySettingReachesThePod(t *testing.T) {
	t.Parallel()
	notOfThePod := map[string]bool{
		"Restart": true, "NodeLost": true, "UpdateStrategy": true, "Suspend": true, "DeletionPolicy": true,
	}
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.ImmortalContainerSpec]()) {
		if !f.Anonymous {
			fields = append(fields, f)
		}
	}
	plain := desired.Pod(minimal())
	for _, f := range fields {
		ic := minimal()
		value := reflect.ValueOf(&ic.Spec).Elem().FieldByIndex(f.Index)
		randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1).MaxDepth(8).Fill(value.Addr().Interface())
		changed := !reflect.DeepEqual(plain.Spec, desired.Pod(ic).Spec)
		if changed == notOfThePod[f.Name] {
			t.Errorf("setting spec.%s changes the pod: %v, want %v", f.Name, changed, !changed)
		}
		if revised := desired.Revision(ic) != desired.Revision(minimal()); revised != (changed && f.Name != "Image") {
			t.Errorf("setting spec.%s gives a new revision: %v, want %v", f.Name, revised, !revised)
		}
	}
}

// These values are stored on existing pods. A new value would replace every pod at the upgrade of the operator.
func TestRevisionIsPinned(t *testing.T) {
	t.Parallel()
	if got, want := desired.Revision(minimal()), "c872108df32f6900"; got != want {
		t.Errorf("the revision of a minimal specification is %s and was %s", got, want)
	}
	if got, want := desired.Revision(read(t, "testdata/pinned.input.yaml")), "d37cb808781928fb"; got != want {
		t.Errorf("the revision of a full specification is %s and was %s", got, want)
	}
}

func TestRevisionIgnoresHowAValueIsWritten(t *testing.T) {
	t.Parallel()
	parse := func(spec string) string {
		ic := minimal()
		if err := yaml.UnmarshalStrict([]byte(spec), &ic.Spec); err != nil {
			t.Fatal(err)
		}
		return desired.Revision(ic)
	}
	for name, tc := range map[string]struct{ reason, a, b string }{
		"quantity":  {"half a CPU is 500m", `resources: {limits: {cpu: "0.5"}}`, `resources: {limits: {cpu: 500m}}`},
		"map order": {"maps have no order", `nodeSelector: {a: x, b: z}`, `nodeSelector: {b: z, a: x}`},
		"empty":     {"an empty list is no list", `args: []`, `{}`},
		"zero":      {"a field without a value is not there", `resources: {}`, `{}`},
		"nothing":   {"an empty affinity is none", `affinity: {}`, `{}`},
		"image":     {"a running pod takes over an image", `image: a`, `image: b`},
	} {
		if a, b := parse(tc.a), parse(tc.b); a != b {
			t.Errorf("%s: %s, but %q and %q have the revisions %s and %s", name, tc.reason, tc.a, tc.b, a, b)
		}
	}
}

// The SDK changes the pod that it is given; the object in the cache must not change with it.
func TestPodSharesNoMemory(t *testing.T) {
	t.Parallel()
	ic := read(t, filepath.Join(samples, "full.yaml"))
	before := ic.DeepCopy()
	pod := desired.Pod(ic)
	randfill.NewWithSeed(1).NilChance(0).NumElements(1, 1).Fill(&pod.Spec.Volumes[0])
	pod.Spec.NodeSelector["x"] = "y"
	pod.Spec.Tolerations[0].Key = "x"
	pod.Spec.Containers[0].Env[0].Name = "X"
	pod.Spec.Containers[0].Command[0] = "x"
	*pod.Spec.TerminationGracePeriodSeconds = 99
	if diff := cmp.Diff(before, ic); diff != "" {
		t.Errorf("changing the pod changed the ImmortalContainer (-before +after):\n%s", diff)
	}
}

func minimal() *v1alpha1.ImmortalContainer {
	return &v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Name: "example", Namespace: "default"},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
}

func read(t *testing.T, path string) *v1alpha1.ImmortalContainer {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ic := &v1alpha1.ImmortalContainer{}
	if err := yaml.UnmarshalStrict(raw, ic); err != nil {
		t.Fatalf("reading %s: %v", path, err)
	}
	return ic
}
