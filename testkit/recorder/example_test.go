package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// apiServer responds to every request with the object that it contains, and with 404 to a GET. A test would use the
// configuration of testkit.K instead.
type apiServer struct{}

func (apiServer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{}`)), Request: req,
		Header: http.Header{"Content-Type": {"application/json"}},
	}
	switch req.Method {
	case http.MethodPost:
		resp.StatusCode = http.StatusCreated
		resp.Body = req.Body
	case http.MethodGet:
		resp.StatusCode = http.StatusNotFound
	}
	return resp, nil
}

// A recorder is put between a client and the API server by wrapping the client's configuration. A failed request is
// recorded, too.
func Example() {
	rec := recorder.New()
	client, err := kubernetes.NewForConfig(rec.Wrap(&rest.Config{Host: "https://api.example", Transport: apiServer{}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, services := context.Background(), client.CoreV1().Services("shop")
	if _, err := services.Get(ctx, "web", metav1.GetOptions{}); err != nil {
		fmt.Println("Get:", err)
	}
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := services.Create(ctx, web, metav1.CreateOptions{}); err != nil {
		fmt.Println("Create:", err)
	}
	patch := []byte(`{"metadata":{"labels":{"app":"web"}}}`)
	if _, err := services.Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		fmt.Println("Patch:", err)
	}
	for _, req := range rec.Requests() {
		fmt.Println(req)
	}
	// Output:
	// Get: the server could not find the requested resource (get services web)
	// get services shop/web -> 404
	// create services shop/web -> 201
	// patch services shop/web -> 200
}

// Writes is the list that an idle operator must keep empty. A dry run changes nothing, so it is not a write.
func ExampleRecorder_Writes() {
	rec := recorder.New()
	client, err := kubernetes.NewForConfig(rec.Wrap(&rest.Config{Host: "https://api.example", Transport: apiServer{}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, services := context.Background(), client.CoreV1().Services("shop")
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		if _, err := services.Create(ctx, web, metav1.CreateOptions{DryRun: dryRun}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(len(rec.Requests()), "requests")
	fmt.Println("writes:", rec.Writes())

	rec.Reset() // from here on the operator should be idle
	fmt.Println("writes:", rec.Writes())
	// Output:
	// 2 requests
	// writes: [create services shop/web -> 201]
	// writes: []
}

// WaitIdle waits for a quiet period, so that a test need not sleep. Its context bounds the wait for an operator that
// never becomes idle.
func ExampleRecorder_WaitIdle() {
	rec := recorder.New()
	client, err := kubernetes.NewForConfig(rec.Wrap(&rest.Config{Host: "https://api.example", Transport: apiServer{}}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.CoreV1().Pods("shop").Delete(ctx, "web-0", metav1.DeleteOptions{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println("idle:", rec.WaitIdle(ctx, 10*time.Millisecond) == nil)

	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err = rec.WaitIdle(short, time.Hour)
	fmt.Println("idle for an hour:", err == nil, errors.Is(err, context.DeadlineExceeded))
	// Output:
	// idle: true
	// idle for an hour: false true
}

// ParseRequest helps a transport that fails certain requests only.
func ExampleParseRequest() {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPut,
		"https://api.example/apis/apps/v1/namespaces/shop/deployments/web/status?dryRun=All", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	got := recorder.ParseRequest(req)
	fmt.Println(got.Verb, got.Group, got.Resource, got.Subresource, got.Namespace, got.Name)
	fmt.Println("writes:", got.IsWrite())
	// Output:
	// update apps deployments status shop web
	// writes: false
}
