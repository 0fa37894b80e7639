package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
)

const healthScript = "resource.customizations.health.example.com_Database"

// GitOps tools compute the health from the conditions: Flux with kstatus, Argo CD with the script of docs/behavior.md.
func TestHealth(t *testing.T) {
	t.Parallel()
	script := documentedScript(t)
	for name, c := range map[string]struct {
		set  func(*site.Site)
		flux status.Status
		argo string
	}{
		"ready":       {func(s *site.Site) { conditions.MarkReady(s, "") }, status.CurrentStatus, "Healthy"},
		"in progress": {func(s *site.Site) { conditions.MarkReconciling(s, "A", "b") }, status.InProgressStatus, "Progressing"},
		"retrying": {func(s *site.Site) {
			conditions.MarkReady(s, "")
			conditions.MarkRetrying(s, "A", "b")
		}, status.InProgressStatus, "Progressing"},
		"needs a change": {func(s *site.Site) { conditions.MarkStalled(s, "A", "b") }, status.FailedStatus, "Degraded"},
		"suspended":      {func(s *site.Site) { conditions.MarkSuspended(s, "A", "b") }, status.InProgressStatus, "Suspended"},
		"new":            {func(*site.Site) {}, status.CurrentStatus, "Progressing"},
		"new, with the default of the status": {func(s *site.Site) {
			s.Status.ObservedGeneration = -1
		}, status.InProgressStatus, "Progressing"},
		"changed": {func(s *site.Site) {
			conditions.MarkReady(s, "")
			s.Generation++
		}, status.InProgressStatus, "Progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite("a")
			s.Generation = 3
			c.set(s)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
			if err != nil {
				t.Fatal(err)
			}
			u := &unstructured.Unstructured{Object: content}
			u.SetGroupVersionKind(site.GroupVersion.WithKind("Site"))
			u.SetCreationTimestamp(metav1.Now())
			got, err := status.Compute(u)
			if err != nil || got.Status != c.flux {
				t.Errorf("kstatus says %v, %v, want %s", got, err, c.flux)
			}
			if got := argoHealth(t, script, u.Object); got != c.argo {
				t.Errorf("the script says %s, want %s", got, c.argo)
			}
		})
	}
}

// documentedScript returns the health check in the document.
func documentedScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/behavior.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml argocd-cm.yaml\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("the document has no health check")
	}
	var cm struct{ Data map[string]string }
	if err := yaml.Unmarshal(m[1], &cm); err != nil || cm.Data[healthScript] == "" {
		t.Fatalf("the document has no script: %v", err)
	}
	return cm.Data[healthScript]
}

// argoHealth runs a health check as Argo CD does: the object is the global variable obj.
func argoHealth(t *testing.T, script string, object map[string]any) string {
	t.Helper()
	l := lua.NewState()
	defer l.Close()
	l.SetGlobal("obj", luaValue(l, object))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %v", l.Get(-1))
	}
	return strings.TrimSpace(result.RawGetString("status").String())
}

func luaValue(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, v := range value {
			table.RawSetString(key, luaValue(l, v))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, v := range value {
			table.Append(luaValue(l, v))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	default:
		return lua.LNil
	}
}
