package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// lostError is the error of a client when the connection breaks after the request was sent.
type lostError struct{}

func (lostError) Error() string   { return "the connection was broken before the answer arrived" }
func (lostError) Timeout() bool   { return true }
func (lostError) Temporary() bool { return true }

var errLost error = lostError{}

// rejectionResponse returns a response that looks like one of the API server.
func rejectionResponse(req *http.Request, status metav1.Status) *http.Response {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	header, code := http.Header{"Content-Type": {"application/json"}}, int(status.Code)
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	}
	body, err := json.Marshal(status)
	if err != nil {
		panic(err) // cannot happen: every field can be encoded
	}
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)), Request: req,
	}
}

// touchedAnnotation is the annotation that another manager sets in fault "conflict".
const touchedAnnotation = state.Mark + "touched"

// mutateExternally changes the object of a request in the role of another manager.
func (r *run) mutateExternally(c *intercept.Call) {
	current, ok := r.find(func(h history.Change) bool {
		return kindOf(h) == intercept.KindOf(c.Request) && h.Object.GetName() == c.Name
	})
	if !ok {
		return
	}
	if err := r.annotate(current.Object, touchedAnnotation, "by somebody else"); err != nil {
		return // the object was deleted
	}
	r.mu.Lock()
	r.externallyChanged = current.Object.GetUID()
	r.mu.Unlock()
	r.logFault("somebody else sets annotation " + touchedAnnotation + " of " + r.name(current) + ", right before the request")
}

func (r *run) annotate(u *unstructured.Unstructured, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	return r.patch(u, types.MergePatchType, patch)
}

func (r *run) patch(u *unstructured.Unstructured, kind types.PatchType, patch string, opts ...client.PatchOption) error {
	opts = append(opts, client.FieldOwner("somebody-else"))
	return r.space.Client.Patch(r.space.Context(), u.DeepCopy(), client.RawPatch(kind, []byte(patch)), opts...)
}

func (r *run) find(is func(history.Change) bool) (history.Change, bool) {
	for _, c := range r.log.Current() {
		if is(c) {
			return c, true
		}
	}
	return history.Change{}, false
}

// waitQuiet waits until the operator is idle with the events that it has received.
func (r *run) waitQuiet() {
	ctx, cancel := r.withTimeout()
	defer cancel()
	_ = r.waitOperatorIdle(ctx, max(finalQuietPeriod, r.x.Guard)) // a timeout is reported at the end of the step
}

// triggerReconcile changes an annotation of the custom resources, so that the operator reconciles them.
func (r *run) triggerReconcile() {
	for i, c := range r.primaries() {
		_ = r.annotate(c.Object, state.Mark+"poke", strconv.Itoa(i)+time.Now().String()) // the object may have been deleted
	}
	r.operator.Touch()
}

// lag delays the watch events of a kind during a step, and triggers a reconcile meanwhile.
func lag(kind intercept.Kind, step int, name string) *plan {
	return &plan{
		name: fmt.Sprintf("lag/%s@%s", kind, slug(name)), fault: "lag", extraQuiet: true,
		summary: fmt.Sprintf("during step %q the operator learned of changes of %s late", name, kind),
		before: func(r *run, at int) {
			if at != step {
				return
			}
			allow := 0
			if r.isPrimary(kind) {
				allow = 1 // the event of the step's own change: without it, the operator does nothing
			}
			r.operator.Hold(kind, allow)
			r.logFault("news of " + kind.String() + " are held back")
		},
		during: func(r *run, at int) {
			if at != step {
				return
			}
			r.waitQuiet()
			r.triggerReconcile()
			r.waitQuiet()
			r.operator.Release(kind)
			r.logFault("news of " + kind.String() + " arrive")
		},
	}
}

func (r *run) isPrimary(kind intercept.Kind) bool {
	made := created(r.user.Calls())
	for _, c := range r.log.Changes() {
		if kindOf(c) == kind && made[c.Object.GetUID()] {
			return true
		}
	}
	return len(r.user.Calls()) == 0
}

// missed hides the state between two steps from the operator, for one kind.
func missed(kind intercept.Kind, step int, from, to string) *plan {
	return &plan{
		name: fmt.Sprintf("missed/%s@%s+%s", kind, slug(from), slug(to)), fault: "missed", extraQuiet: true, skipCounts: true,
		noWaitAfter: step + 1,
		summary:     fmt.Sprintf("the operator never saw what %s were between step %q and step %q", kind, from, to),
		before: func(r *run, at int) {
			if at == step {
				r.operator.Hold(kind, 0)
				r.logFault("news of " + kind.String() + " are held back")
			}
		},
		during: func(r *run, at int) {
			switch at {
			case step:
				r.waitQuiet()
				if r.plan.untriedReason = r.backToBackObstacle(); r.plan.untriedReason == "" {
					return
				}
				r.plan.noWaitAfter = 0
				r.operator.Release(kind)
			case step + 1:
				if r.plan.untriedReason != "" {
					return
				}
				r.operator.Expire(kind)
				r.logFault("the watch of " + kind.String() + " ends with 410 Gone: what was held back is never told")
			}
		},
	}
}

// backToBackObstacle returns why the next step cannot follow before the operator has seen this one, or "".
func (r *run) backToBackObstacle() string {
	if r.stepBlocked {
		return "the first of the two steps waits for what the operator makes of it"
	}
	r.await(r.historyShowsWrites)
	if r.hasTerminatingObject() {
		return "an object that is being deleted stays until the operator has seen that"
	}
	return ""
}

// hasTerminatingObject reports whether an object of the scenario has a deletion timestamp and still exists.
func (r *run) hasTerminatingObject() bool {
	made := created(r.user.Calls())
	_, going := r.find(func(c history.Change) bool {
		return made[c.Object.GetUID()] && c.Object.GetDeletionTimestamp() != nil
	})
	return going
}

// down stops the operator for the duration of one step.
func down(step int, name string) *plan {
	return &plan{
		name: "down@" + slug(name), fault: "down", extraQuiet: true, skipCounts: true,
		summary: fmt.Sprintf("the operator did not run during step %q, and was started after it", name),
		before: func(r *run, at int) {
			if at == step {
				r.killAll()
			}
		},
		during: func(r *run, at int) {
			if at == step {
				r.start()
			}
		},
	}
}

// downTwoSteps stops the operator for the duration of two steps, so that it never sees the state between them. Neither
// its memory nor leftovers of the earlier state may matter.
func downTwoSteps(step int, from, to string) *plan {
	return &plan{
		name: fmt.Sprintf("down@%s+%s", slug(from), slug(to)), fault: "down",
		extraQuiet: true, skipCounts: true, noWaitAfter: step + 1,
		summary: fmt.Sprintf("the operator did not run during steps %q and %q, and was started after them", from, to),
		before: func(r *run, at int) {
			if at == step {
				r.killAll()
			}
		},
		during: func(r *run, at int) {
			if at == step {
				r.plan.untriedReason = r.backToBackObstacle()
			}
			switch {
			case at == step && r.plan.untriedReason != "":
				r.plan.noWaitAfter = 0
				r.start()
			case at == step+1 && r.plan.untriedReason == "":
				r.start()
			}
		},
	}
}

func (r *run) killAll() {
	for number, p := range r.running() {
		r.operator.Sever(number)
		r.endProcess(number, p.Kill)
	}
	r.logFault("the operator is killed, and stays down")
}

func watchFault(
	fault, what string, step int, name string, kinds []intercept.Kind, end func(*intercept.Interceptor, intercept.Kind) int,
) *plan {
	return &plan{
		name: fault + "@" + slug(name), fault: fault, extraQuiet: true,
		summary: fmt.Sprintf("right after step %q %s", name, what),
		during: func(r *run, at int) {
			if at != step {
				return
			}
			broken := 0
			for _, kind := range kinds {
				broken += end(r.operator, kind)
			}
			if broken > 0 {
				r.logFault(what)
			}
		},
	}
}

// earlyDeletion deletes the custom resources while the operator reconciles a step.
func earlyDeletion(step int, name string) *plan {
	return &plan{
		name: "deleted@" + slug(name), fault: "deleted", extraQuiet: true, skipCounts: true, deletesEarly: true,
		summary: fmt.Sprintf("the custom resources were deleted right after step %q, while the operator was busy with it", name),
		during: func(r *run, at int) {
			if at == step {
				r.logFault("the custom resources are deleted early")
				r.tearDown()
			}
		},
	}
}

// namespaceDeleted simulates the deletion of the namespace: every object of the scenario and of the operator is deleted,
// dependents first, and creations are rejected. The namespace itself and its initial objects stay, because in a test they
// include the operator's prerequisites.
func namespaceDeleted(step int, name string) *plan {
	return &plan{
		name: "namespace-deleted@" + slug(name), fault: "namespace-deleted",
		extraQuiet: true, skipCounts: true, deletesEarly: true,
		summary: fmt.Sprintf("after step %q everything was deleted at once, and nothing could be created any more, "+
			"as when the namespace is deleted", name),
		afterIdle: func(r *run, at int) {
			if at == step {
				r.logFault("the namespace is being deleted")
				r.terminating.Store(true)
				r.tearDown()
			}
		},
	}
}

// isBlockedByTermination reports whether a request would create an object in the terminating namespace.
func (r *run) isBlockedByTermination(ctx context.Context, c *intercept.Call) bool {
	if !r.terminating.Load() || c.Namespace != r.space.Namespace || c.Subresource != "" {
		return false
	}
	if c.Verb != "patch" {
		return c.Verb == "create"
	}
	gvk, err := r.space.Client.RESTMapper().KindFor(schema.GroupVersionResource{Group: c.Group, Resource: c.Resource})
	if err != nil {
		return false
	}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(gvk)
	return apierrors.IsNotFound(r.space.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, there))
}

// terminatingResponse returns the API server's response to such a request.
func terminatingResponse(req *http.Request, c *intercept.Call) *http.Response {
	resource := schema.GroupResource{Group: c.Group, Resource: c.Resource}
	status := apierrors.NewForbidden(resource, c.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace)).Status()
	status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace),
	})
	return rejectionResponse(req, status)
}

// failover kills the leader of two replicas during a step.
func failover(step int, name string) *plan {
	return &plan{
		name: "failover@" + slug(name), fault: "failover", extraQuiet: true, elect: true, replicas: 2,
		summary: fmt.Sprintf("two replicas ran, and the leader was killed right after step %q", name),
		during: func(r *run, at int) {
			if at != step {
				return
			}
			if leader := r.leader(); leader > 0 {
				r.crash(leader)
			}
		},
	}
}

// leader returns the number of the process that holds the Lease, or 0.
func (r *run) leader() int {
	leader := 0
	for _, c := range r.operator.Calls() {
		if intercept.IsLease(c.Request) && c.Writes() && c.Reached && c.Code < http.StatusMultipleChoices {
			leader = c.Process
		}
	}
	return leader
}
