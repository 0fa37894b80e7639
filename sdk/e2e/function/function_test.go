package function_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/homeostat-dev/homeostat/sdk/function"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

func TestMain(m *testing.M) {
	workIfAsked()
	testkit.Main(m, testkit.Env{CRDs: "testdata/crd", RBAC: "testdata/rbac"})
}

var config = function.Config{
	Version: 1, Name: "pages", Kind: function.Kind{APIVersion: "function.homeostat.dev/v1", Kind: "Page"},
	Owns:       []function.OwnedKind{{Kind: function.Kind{APIVersion: "v1", Kind: "ConfigMap"}}},
	References: []function.Kind{{APIVersion: "v1", Kind: "Secret"}},
	Finalize:   true,
}

// process returns the function in a process of this binary.
func process(t *testing.T, env ...string) *function.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &function.Process{
		Command: []string{self}, Env: append([]string{workerVariable + "="}, env...),
		Timeout: 5 * time.Second, MaxAnswer: 1 << 20,
	}
}

func page(name, text, mode string) *unstructured.Unstructured {
	p := object("function.homeostat.dev/v1", "Page", name, map[string]any{"spec": map[string]any{"text": text, "mode": mode}})
	return &p
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func text(want string) testkit.Check {
	return testkit.Match("the text is "+want, func(c *corev1.ConfigMap) bool { return c.Data["text"] == want })
}

// statusHasConfigMap is true once the function has read its ConfigMap, which the first call creates.
var statusHasConfigMap = testkit.Match("the status names the ConfigMap", func(p *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(p.Object, "status", "configMap")
	return name == "a"
})

// quiet waits until the operator makes no requests.
func quiet(k *testkit.K, op *testkit.Instance) {
	k.Wait("the operator to be idle", func(ctx context.Context) error {
		return op.Recorder().WaitIdle(ctx, 300*time.Millisecond)
	})
}

func TestFunction(t *testing.T) {
	t.Parallel()
	unix := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	unix.Listener = listener
	unix.Start()
	t.Cleanup(unix.Close)
	server := httptest.NewServer(http.HandlerFunc(serve))
	t.Cleanup(server.Close)
	for name, f := range map[string]function.Transport{
		"process": process(t), "http": &function.Server{URL: server.URL}, "unix": &function.Server{URL: "unix://" + socket},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			op := k.Run(&function.Operator{Config: config, Function: f, PurityChecks: 1})
			a := page("a", "hello", "")
			k.Apply(a)
			k.Eventually(a, testkit.Ready(), testkit.Condition("Written", metav1.ConditionTrue))
			k.Eventually(configMap("a"), text("hello"))
			k.Eventually(configMap("a-index"), testkit.Exists())
			k.Eventually(a, testkit.Match("the status is that of the answer", func(p *unstructured.Unstructured) bool {
				status, _, _ := unstructured.NestedMap(p.Object, "status")
				return status["length"] == int64(5) && status["ratio"] == int64(2) && status["configMap"] == "a"
			}))
			quiet(k, op)

			k.Update(a, func() { _ = unstructured.SetNestedField(a.Object, "", "spec", "text") })
			k.Eventually(a, testkit.Reason("Stalled", metav1.ConditionTrue, "TextMissing"))
			k.Update(a, func() {
				_ = unstructured.SetNestedField(a.Object, "two ", "spec", "text")
				_ = unstructured.SetNestedField(a.Object, "s", "spec", "secretName")
			})
			k.Eventually(a, testkit.Reason("Ready", metav1.ConditionFalse, "ReferenceNotFound"))
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"text": []byte("a")}}
			k.Apply(secret)
			k.Eventually(configMap("a"), text("two YQ=="))
			k.Update(secret, func() { secret.Data["text"] = []byte("b") })
			k.Eventually(configMap("a"), text("two Yg=="))
			k.Delete(a)
			k.Eventually(a, testkit.Gone())
			k.Eventually(configMap("a"), testkit.Gone())
		})
	}
}

// What a function does wrong with one object is in its conditions, and concerns no other object.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct{ reason, message string }{
		"crash":             {function.ReasonCrashed, "exit status 1): the text cannot be read"},
		"garbage":           {function.ReasonInvalidAnswer, "not an answer of protocol 1"},
		"large":             {function.ReasonInvalidAnswer, "larger than 1048576 bytes"},
		"hang":              {function.ReasonTimeout, "did not answer in time"},
		"impure":            {function.ReasonNotDeterministic, "differ at children[0].object.data.text"},
		"other id":          {function.ReasonInvalidAnswer, `its id is "none"`},
		"other protocol":    {function.ReasonInvalidAnswer, "it is one of protocol 2"},
		"unknown field":     {function.ReasonInvalidAnswer, `unknown field "childs"`},
		"error":             {function.ReasonFailed, "ValueError: the text is wrong"},
		"unknown kind":      {function.ReasonInvalidAnswer, "its kind is not in owns"},
		"unknown reference": {function.ReasonInvalidAnswer, "add it to references"},
		"unfinished":        {function.ReasonInvalidAnswer, "unfinished is for the call finalize"},
		"labels":            {function.ReasonInvalidAnswer, "they are for decorated objects"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			f := process(t)
			f.StartTimeout = f.Timeout
			k.Run(&function.Operator{Config: config, Function: f, PurityChecks: 1})
			bad := page("bad", "hello", mode)
			k.Apply(bad)
			good := page("good", "hello", "")
			k.Apply(good)
			k.Eventually(bad, testkit.Reason("Ready", metav1.ConditionFalse, want.reason),
				testkit.Match("the message has: "+want.message, func(p *unstructured.Unstructured) bool {
					return strings.Contains(fmt.Sprint(p.Object["status"]), want.message)
				}))
			k.Eventually(good, testkit.Ready())
			if n := calls(t, "answer"); n == 0 {
				t.Error("no call is in the metrics")
			}
			if n := calls(t, want.reason); n == 0 && (mode == "crash" || mode == "hang" || mode == "large") {
				t.Errorf("no call with the result %s is in the metrics", want.reason)
			}
			k.Update(bad, func() { _ = unstructured.SetNestedField(bad.Object, "", "spec", "mode") })
			k.Eventually(bad, testkit.Ready())
		})
	}
}

// An object whose status is not stored as a whole is not ready, at no time in between either. Its children are applied.
func TestStatusNotStored(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Run(&function.Operator{Config: config, Function: process(t), PurityChecks: 1})
	a := page("a", "hello", "status not stored")
	k.Apply(a)
	notStored := testkit.Reason("Ready", metav1.ConditionFalse, function.ReasonStatusNotStored)
	k.Eventually(a, notStored, hasMessage("the API server does not store status.unknown: add it to the schema of the CRD"))
	k.Eventually(configMap("a"), text("hello"))
	k.Consistently(a, 2*time.Second, notStored)
	k.Update(a, func() { _ = unstructured.SetNestedField(a.Object, "", "spec", "mode") })
	k.Eventually(a, testkit.Ready())
}

// scenario creates, changes and deletes a Page that depends on a Secret.
var scenario = chaos.Scenario{
	{Name: "create", Do: func(k *testkit.K) { k.Apply(page("a", "hello", "")) }},
	{Name: "change", Do: func(k *testkit.K) { k.Apply(page("a", "bye", "")) }},
	{Name: "delete", Do: func(k *testkit.K) { k.Delete(page("a", "", "")) }},
}

func TestFaults(t *testing.T) {
	chaos.Sweep(t, &function.Operator{Config: config, Function: process(t)}, scenario, chaos.All)
}

// A function that ends in any call has the same result.
func TestCrashInEachCall(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			file := filepath.Join(t.TempDir(), "count")
			if err := os.WriteFile(file, fmt.Appendf(nil, "0 %d", n), 0o600); err != nil {
				t.Fatal(err)
			}
			f := process(t, workerVariable+"=crash after "+file)
			f.Size = 1 // processes would count at the same time
			op := k.Run(&function.Operator{Config: config, Function: f, PurityChecks: -1})
			a := page("a", "hello", "")
			k.Apply(a)
			// Each of these five waits needs a call of its own, and no two events can share one.
			k.Eventually(configMap("a"), text("hello"))
			k.Eventually(a, testkit.Ready(), statusHasConfigMap)
			for _, change := range []string{"good", "bye"} {
				k.Update(a, func() { _ = unstructured.SetNestedField(a.Object, change, "spec", "text") })
				k.Eventually(configMap("a"), text(change))
				k.Eventually(a, testkit.Ready())
			}
			quiet(k, op)
			k.Delete(a)
			k.Eventually(a, testkit.Gone())
			k.Eventually(configMap("a"), testkit.Gone())
			count, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var calls, at int
			if _, err := fmt.Sscan(string(count), &calls, &at); err != nil || calls < at {
				t.Errorf("the process ends in call %d, and there were %d calls: %v", at, calls, err)
			}
		})
	}
}

// calls returns the number of calls with a result in the metrics of this process.
func calls(t *testing.T, result string) uint64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == "homeostat_function_call_duration_seconds" && label.GetValue() == result {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}

// The package for Python gives the answers of the protocol.
func TestPythonConformance(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
		t.Skip("python3 is missing")
	}
	var out strings.Builder
	f := &function.Process{Command: []string{"python3", "-m", "tests.web"}, Dir: "../../python"}
	if err := function.CheckConformance(t.Context(), f, &out); err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
}
