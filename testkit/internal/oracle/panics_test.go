package oracle_test

import (
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
)

func TestLoggedPanics(t *testing.T) {
	t.Parallel()
	const traceback = "Traceback (most recent call last):\n  File \"op.py\", line 7, in create\n    x = spec['a']\n"
	for name, test := range map[string]struct{ log, want string }{
		"nothing": {"I1126 started\nReconciler error: Post: EOF", ""},
		"klog": {
			`E1126 08:30:06.123456 1 runtime.go:142] "Observed a panic" panic="runtime error: index out of range [3]" stacktrace=<`,
			"runtime error: index out of range [3]",
		},
		"JSON": {
			`{"level":"error","msg":"Observed a panic","panic":"runtime error: invalid memory address","stacktrace":"a\nb"}`,
			"runtime error: invalid memory address",
		},
		"another value": {`Observed a panic: boom`, "Observed a panic: boom"},
		"Go": {
			"panic: runtime error: integer divide by zero\n\ngoroutine 1 [running]:", "runtime error: integer divide by zero",
		},
		"second process": {"[process 2] panic: assignment to entry in nil map", "assignment to entry in nil map"},
		"maps":           {"fatal error: concurrent map writes", "fatal error: concurrent map writes"},
		"deliberate":     {`panic: Get "https://127.0.0.1": EOF`, ""},
		"about panics":   {"recovering from panics is enabled, panic: false", ""},
		"Python":         {"[process 3] " + traceback + "KeyError: 'a'", "KeyError: 'a'"},
		"Python in JSON": {
			`{"message": "failed", "exc_info": "` + strings.ReplaceAll(traceback, "\n", `\n`) + `TypeError: no\n"}`, "TypeError: no",
		},
		"a failed request": {traceback + "kubernetes.client.exceptions.ApiException: (500)\nReason: Internal Server Error", ""},
		"the second one": {
			traceback + "urllib3.exceptions.ProtocolError: closed\n\nDuring handling of the above exception, another exception " +
				"occurred:\n\n" + traceback + "AttributeError: 'NoneType' object has no attribute 'status'",
			"AttributeError: 'NoneType' object has no attribute 'status'",
		},
		"a word":     {"KeyError: 'a' was handled", ""},
		"Rust":       {"thread 'main' panicked at src/main.rs:7:5:", "thread 'main' panicked at src/main.rs:7:5:"},
		"Java":       {"java.lang.NullPointerException: null\n\tat A.b(A.java:1)", "java.lang.NullPointerException: null"},
		"JavaScript": {"TypeError: Cannot read properties of undefined", "TypeError: Cannot read properties of undefined"},
	} {
		got := oracle.LoggedPanics(strings.Split(test.log, "\n"))
		switch {
		case test.want == "" && len(got) == 0:
		case len(got) != 1 || got[0].Message != "the operator panicked: "+test.want || got[0].Oracle != oracle.Panic:
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		case got[0].Detail == "":
			t.Errorf("%s: there is no excerpt of the log", name)
		}
	}
}
