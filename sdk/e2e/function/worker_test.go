package function_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/sdk/function"
)

// workerVariable makes this test binary the process of a function.
const workerVariable = "FUNCTION_E2E_WORKER"

// workIfAsked answers requests on the standard input, and does not return, if this is the process of a function. With the
// value "crash N" the process ends instead of the N-th answer.
func workIfAsked() {
	mode, ok := os.LookupEnv(workerVariable)
	if !ok {
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		if countdown, ok := strings.CutPrefix(mode, "crash after "); ok && reached(countdown) {
			fmt.Fprintln(os.Stderr, "the process crashes as planned")
			os.Exit(3)
		}
		fmt.Println(string(answer(in.Bytes())))
	}
	os.Exit(0)
}

// reached counts the requests of all processes in a file, and reports whether this is the one of the number in it.
func reached(file string) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	var n, at int
	if _, err := fmt.Sscan(string(data), &n, &at); err != nil {
		return false
	}
	_ = os.WriteFile(file, fmt.Appendf(nil, "%d %d", n+1, at), 0o600) // a test sees that it did not count
	return n+1 == at
}

// answer is the function: a ConfigMap with the text of the Page and the content of a Secret.
func answer(request []byte) []byte {
	var req function.Request
	if err := json.Unmarshal(request, &req); err != nil {
		panic(err)
	}
	page := unstructured.Unstructured{Object: req.Object}
	text, _, _ := unstructured.NestedString(req.Object, "spec", "text")
	mode, _, _ := unstructured.NestedString(req.Object, "spec", "mode")
	a := &function.Answer{Protocol: function.ProtocolVersion, ID: req.ID}
	switch mode {
	case "crash":
		fmt.Fprintln(os.Stderr, "the text cannot be read")
		os.Exit(1)
	case "garbage":
		return []byte("Traceback (most recent call last):")
	case "large":
		return []byte(strings.Repeat("x", 2<<20))
	case "hang":
		_, _ = io.Copy(io.Discard, os.Stdin) // the end of the process ends it
	case "unknown field":
		return fmt.Appendf(nil, `{"protocol":1,"id":%q,"childs":[]}`, req.ID)
	case "impure":
		text += time.Now().String()
	}
	switch mistake := mistakes[mode]; {
	case mistake != nil:
		mistake(a)
	case page.GetKind() == tenants.Kind.Kind:
		reconcileTenant(&req, a)
	default:
		reconcile(&req, a, page.GetName(), text)
		if mode == "status not stored" {
			a.Status["unknown"] = "x"
		}
	}
	data, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	return data
}

// mistakes are the answers of other modes.
var mistakes = map[string]func(a *function.Answer){
	"other id":       func(a *function.Answer) { a.ID = "none" },
	"other protocol": func(a *function.Answer) { a.Protocol = 2 },
	"error":          func(a *function.Answer) { a.Error = "ValueError: the text is wrong" },
	"unfinished":     func(a *function.Answer) { a.Unfinished = &function.Problem{Reason: "A", Message: "b"} },
	"labels":         func(a *function.Answer) { a.Labels = map[string]string{"a": "b"} },
	"unknown kind": func(a *function.Answer) {
		a.Children = []function.Child{{Object: object("v1", "Service", "a", nil)}}
	},
	"unknown reference": func(a *function.Answer) {
		a.References = []function.Reference{{APIVersion: "v1", Kind: "Pod", Name: "a"}}
	},
}

func reconcile(req *function.Request, a *function.Answer, name, text string) {
	if req.Call == function.CallFinalize {
		return
	}
	if secretName, _, _ := unstructured.NestedString(req.Object, "spec", "secretName"); secretName != "" {
		a.References = []function.Reference{{APIVersion: "v1", Kind: "Secret", Name: secretName}}
		if len(req.References) == 0 {
			return
		}
		if len(req.References[0].Objects) == 0 {
			a.Wait = &function.Problem{Reason: "ReferenceNotFound", Message: "Secret " + secretName + " does not exist"}
			return
		}
		data, _, _ := unstructured.NestedString(req.References[0].Objects[0], "data", "text")
		text += data
	}
	if text == "" {
		a.Invalid = &function.Problem{Reason: "TextMissing", Message: "spec.text is empty: set it"}
		return
	}
	a.Children = []function.Child{
		{Object: object("v1", "ConfigMap", name, map[string]any{"data": map[string]any{"text": text}})},
		{
			Object: object("v1", "ConfigMap", name+"-index", map[string]any{"data": map[string]any{"page": name}}),
			After:  []function.ChildName{{APIVersion: "v1", Kind: "ConfigMap", Name: name}},
		},
	}
	a.Status = map[string]any{"length": len(text), "ratio": 2.0, "configMap": nil}
	for _, child := range req.Children {
		if c := (unstructured.Unstructured{Object: child}); c.GetName() == name {
			a.Status["configMap"] = name
		}
	}
	a.Conditions = []function.Condition{{Type: "Written", Status: "True", Reason: "TextIsSet"}}
}

func object(apiVersion, kind, name string, content map[string]any) unstructured.Unstructured {
	o := unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, content)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// serve answers requests by HTTP.
func serve(w http.ResponseWriter, r *http.Request) {
	var body json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(answer(body)) // the engine sees that it is incomplete
}
