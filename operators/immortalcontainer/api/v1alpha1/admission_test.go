package v1alpha1_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "../../config/crd", AddToScheme: v1alpha1.AddToScheme})
}

// container returns an ImmortalContainer with a specification in YAML; "-" means none.
func container(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	o := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ImmortalContainer",
		"metadata": map[string]any{"name": name},
	}
	if spec != "-" {
		var fields any
		if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
			t.Fatal(err)
		}
		o["spec"] = fields
	}
	return &unstructured.Unstructured{Object: o}
}

const (
	noImage = "spec.image: Required value: no image is given: " +
		"set spec.image to the container image to keep running, for example nginx:latest"
	badImage = "spec.image: Invalid value: an image reference contains no white space: " +
		"remove it from spec.image, for example nginx:latest"
	noReference = "spec.image: Invalid value: no container image can have that name, and no node would start it: write " +
		"spec.image as [registry[:port]/]name[:tag][@digest] with a name of lower-case letters and digits, " +
		"for example nginx:latest"
	longName = "metadata: Invalid value: metadata.name is too long: the pod is called <name>-immortalpod " +
		"and a host name may have 63 characters, so choose a name of at most 51 characters"
	maxLower = "spec.restart: Invalid value: maxBackoff is shorter than initialBackoff: " +
		"raise spec.restart.maxBackoff (default 5m) or lower spec.restart.initialBackoff (default 1s)"
)

func initial(value string) string {
	return `spec.restart.initialBackoff: Invalid value: "` + value +
		`": spec.restart.initialBackoff must be a duration from 1s to 1h, for example 1s, 90s or 1m30s`
}

func longest(value string) string {
	return `spec.restart.maxBackoff: Invalid value: "` + value +
		`": spec.restart.maxBackoff must be a duration from 1s to 24h, for example 30s, 5m or 1h30m`
}

func reset(value string) string {
	return `spec.restart.resetAfter: Invalid value: "` + value +
		`": spec.restart.resetAfter must be a duration from 1s to 24h, for example 30s, 10m or 1h30m`
}

// The whole message of the API server is compared.
func TestInvalidObjectIsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	const name = "a"
	for why, tc := range map[string]struct{ name, spec, want string }{
		"no specification":      {name, "-", noImage},
		"null specification":    {name, "null", noImage},
		"no image":              {name, "{}", noImage},
		"null image":            {name, "image: null", noImage},
		"empty image":           {name, `image: ""`, noImage},
		"image with a space":    {name, `image: "nginx latest"`, badImage},
		"image with a line end": {name, `image: "nginx\n"`, badImage},
		"image of two slashes":  {name, "image: NoSuch//image", noReference},
		"image with capitals":   {name, "image: Nginx", noReference},
		"image of a URL":        {name, "image: http://registry.example/nginx", noReference},
		"image without a tag":   {name, `image: "nginx:"`, noReference},
		"image with half a sum": {name, "image: nginx@sha256:0123", noReference},
		"image that is a tag":   {name, `image: ":latest"`, noReference},
		"52 characters":         {strings.Repeat("a", 52), "image: a", longName},
		"253 characters":        {strings.Repeat("a", 253), "image: a", longName},
		"maximum below initial": {name, "{image: a, restart: {initialBackoff: 10s, maxBackoff: 5s}}", maxLower},
		"initial above default": {name, "{image: a, restart: {initialBackoff: 10m}}", maxLower},
		"no wait":               {name, "{image: a, restart: {initialBackoff: 0s}}", initial("0s")},
		"too short a wait":      {name, "{image: a, restart: {initialBackoff: 999ms}}", initial("999ms")},
		"too long a wait":       {name, "{image: a, restart: {initialBackoff: 61m, maxBackoff: 2h}}", initial("61m")},
		"negative":              {name, "{image: a, restart: {initialBackoff: -1s}}", initial("-1s")},
		"days":                  {name, "{image: a, restart: {maxBackoff: 1 day}}", longest("1 day")},
		"no unit":               {name, `{image: a, restart: {maxBackoff: "5"}}`, longest("5")},
		"empty":                 {name, `{image: a, restart: {maxBackoff: ""}}`, longest("")},
		"too long a maximum":    {name, "{image: a, restart: {maxBackoff: 24h1s}}", longest("24h1s")},
		"beyond what is a time": {name, "{image: a, restart: {maxBackoff: 9999999999999h}}", longest("9999999999999h")},
		"reset too soon":        {name, "{image: a, restart: {resetAfter: 0.5s}}", reset("0.5s")},
		"unknown policy": {
			name, "{image: a, nodeLost: Maybe}",
			`spec.nodeLost: Unsupported value: "Maybe": supported values: "Wait", "Replace"`,
		},
		"two at once": {name, "{restart: {maxBackoff: 1m, initialBackoff: 2m}}", "[" + noImage + ", " + maxLower + "]"},
	} {
		_, got, _ := strings.Cut(k.Refused(container(t, tc.name, tc.spec)), " is invalid: ")
		// The API server does not evaluate rules after a schema error, and adds a line about that.
		got = strings.TrimSuffix(strings.TrimPrefix(got, "["), unchecked)
		if want := strings.TrimPrefix(tc.want, "["); got != want {
			t.Errorf("%s: the message is\n%s\nwant\n%s", why, got, want)
		}
	}
}

const unchecked = ", <nil>: Invalid value: null: some validation rules were not checked because the object was " +
	"invalid; correct the existing errors to complete validation]"

func TestValidObjectIsAccepted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for _, tc := range map[string]struct{ name, spec string }{
		"51 characters": {strings.Repeat("a", 51), "image: a"},
		"digest":        {"digest", "image: registry.example:5000/a/b@sha256:" + strings.Repeat("0a", 32)},
		"dots":          {"a.b", "image: a"},
		"equal waits":   {"equal", "{image: a, restart: {initialBackoff: 5m, maxBackoff: 300s}}"},
		"compound":      {"compound", "{image: a, restart: {initialBackoff: 1m30.5s}}"},
		"bounds":        {"bounds", "{image: a, restart: {initialBackoff: 1h, maxBackoff: 24h, resetAfter: 1s}}"},
		"null":          {"null", "{image: a, restart: null, nodeLost: null}"},
	} {
		k.Apply(container(t, tc.name, tc.spec))
	}
}

// The samples are accepted, and the article's manifest gets the documented defaults.
func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for _, sample := range []string{"example.yaml", "full.yaml"} {
		k.Apply(read(t, "../../config/samples/"+sample))
	}
	got := &v1alpha1.ImmortalContainer{}
	got.Name = "example-immortal-container"
	got.Namespace = k.Namespace
	k.Get(got)
	want := v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"}
	want.Restart.InitialBackoff.Duration = v1alpha1.DefaultInitialBackoff
	want.Restart.MaxBackoff.Duration = v1alpha1.DefaultMaxBackoff
	want.Restart.ResetAfter.Duration = v1alpha1.DefaultResetAfter
	want.NodeLost = v1alpha1.NodeLostWait
	want.UpdateStrategy = v1alpha1.UpdateInPlaceIfPossible
	want.DeletionPolicy = v1alpha1.DeletionDelete
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("the defaults differ from the documented ones (-want +got):\n%s", diff)
	}
}

// A Go program that reads an object and writes it back must not fail over the format of durations.
func TestGoClientsMayWriteBack(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(container(t, "a", "{image: a, restart: {initialBackoff: 90.5s, maxBackoff: 24h, resetAfter: 100m}}"))
	ic := &v1alpha1.ImmortalContainer{}
	ic.Name = "a"
	ic.Namespace = k.Namespace
	k.Update(ic, func() { ic.Spec.Image = "b" })
	if got := ic.Spec.Restart.InitialBackoff.Duration; got != 90500*time.Millisecond || ic.Spec.Image != "b" {
		t.Errorf("read back an initial backoff of %s and image %s", got, ic.Spec.Image)
	}
}

func read(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &o.Object); err != nil {
		t.Fatalf("reading %s: %v", file, err)
	}
	return o
}

// The operator counts on from the stored number, so the API server admits no negative one.
func TestNegativeCountsAreRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(container(t, "a", "image: nginx"))
	for field, forge := range map[string]func(*v1alpha1.ImmortalContainerStatus){
		"startTimes":          func(s *v1alpha1.ImmortalContainerStatus) { s.StartTimes = -4 },
		"containerRestarts":   func(s *v1alpha1.ImmortalContainerStatus) { s.ContainerRestarts = -1 },
		"consecutiveFailures": func(s *v1alpha1.ImmortalContainerStatus) { s.ConsecutiveFailures = -1 },
	} {
		ic := &v1alpha1.ImmortalContainer{}
		ic.Name = "a"
		k.Get(ic)
		forge(&ic.Status)
		if err := k.Client.Status().Update(k.Context(), ic); !apierrors.IsInvalid(err) {
			t.Errorf("a negative status.%s is accepted: %v", field, err)
		}
	}
}
