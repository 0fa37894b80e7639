package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/storage"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Condition types beside those that every object has.
const (
	Available           = "Available"           // the primary accepts connections
	Progressing         = "Progressing"         // the members do not match the specification yet
	Degraded            = "Degraded"            // not all members are ready
	StorageResized      = "StorageResized"      // the volumes have the requested size
	ReplicationHealthy  = "ReplicationHealthy"  // the replicas follow the primary
	BackupScheduled     = "BackupScheduled"     // dumps are scheduled
	LastBackupSucceeded = "LastBackupSucceeded" // the last attempt succeeded; absent before the first one
)

// Reasons of Ready and Available.
const (
	ReasonProvisioning = "Provisioning"
	reasonReady        = "DatabaseReady"
	reasonAvailable    = "DatabaseAvailable"
	reasonFailed       = "ProvisionFailed"

	// ReasonRestoreFailed is the reason of Ready if a dump could not be restored.
	ReasonRestoreFailed = "RestoreFailed"
)

// Server is the observed state of the members.
type Server struct {
	Set  *appsv1.StatefulSet // empty if there is none
	Pods []*corev1.Pod       // of the members, by name

	primary string
	desired *appsv1.StatefulSet
}

// SetDesired sets the StatefulSet that the reconcile applies.
func (s *Server) SetDesired(set *appsv1.StatefulSet) { s.desired = set }

// Members returns the server with the pods that belong to the members. A pod without a StatefulSet must have the name and
// the labels of a member, because any editor of the namespace can set the labels: the StatefulSet adopts or ends such a pod.
func Members(db *v1.Database, set *appsv1.StatefulSet, pods []*corev1.Pod) Server {
	s := Server{Set: set, primary: desired.PodName(db, 0)}
	members := names(db, 0, desired.MaxMembers)
	selector := labels.SelectorFromSet(desired.Selector(db))
	for _, pod := range pods {
		if pod.Labels[desired.ComponentLabel] != desired.ServerComponent || !slices.Contains(members, pod.Name) ||
			!selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		// Pods are orphans while their StatefulSet is recreated.
		if owner := metav1.GetControllerOf(pod); owner == nil || set.UID == "" || owner.UID == set.UID {
			s.Pods = append(s.Pods, pod)
		}
	}
	return s
}

// PrimaryReady reports whether the primary accepts connections.
func (s *Server) PrimaryReady() bool {
	return slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool { return pod.Name == s.primary && ready(pod) })
}

// count returns the number of existing and of ready members.
func (s *Server) count() (all, working int32) {
	for _, pod := range s.Pods {
		all++
		if ready(pod) {
			working++
		}
	}
	return all, working
}

func ready(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Addresses sets the endpoints, the names and the version in the status.
func Addresses(db *v1.Database, clusterDomain string) {
	s := &db.Status
	s.Engine = db.Spec.Engine
	s.Version = db.Spec.Version
	s.Primary = desired.PodName(db, 0)
	s.SecretName = desired.SecretName(db)
	s.Endpoint = desired.Endpoint(db, desired.SetName(db), clusterDomain)
	s.ReadEndpoint = desired.Endpoint(db, desired.ReadServiceName(db), clusterDomain)
	s.Selector = labels.SelectorFromSet(desired.Selector(db)).String()
}

// Pods sets the status fields and conditions of the members. It returns the reason and the message of an unready database;
// both are "" if it is ready.
func Pods(db *v1.Database, server *Server) (reason, message string) {
	s := &db.Status
	want := *server.desired.Spec.Replicas
	s.Image = server.desired.Spec.Template.Spec.Containers[0].Image
	s.Replicas, s.ReadyReplicas = server.count()
	trouble := FirstProblem(server.Pods)
	available(db, server, trouble)
	replication(db, server)
	progressing(db, server)
	if server.rolledOut() && s.ReadyReplicas == want && want > 0 && (db.Spec.BootstrapFrom == nil || s.Restored != "") {
		s.CurrentVersion = db.Spec.Version
	}
	missing := fmt.Sprintf("%d of %d members work", s.ReadyReplicas, want)
	if trouble != "" {
		missing += ": " + trouble
	}
	degraded := s.ReadyReplicas < want
	if degraded {
		set(db, Degraded, true, "MembersNotReady", missing)
	} else {
		set(db, Degraded, false, "AllMembersWork", "")
	}
	switch {
	case db.Spec.Hibernate:
		return "Hibernated", "the database was told to hibernate: its data are kept, and nothing runs"
	case s.CurrentVersion == "" && slices.ContainsFunc(server.Pods, cannotRun):
		return reasonFailed, trouble
	case s.CurrentVersion == "" && degraded:
		const message = "Database is being provisioned"
		if trouble != "" { // for example unschedulable
			return ReasonProvisioning, message + ": " + trouble
		}
		return ReasonProvisioning, message
	case degraded:
		return "MembersNotReady", missing
	}
	return "", ""
}

func progressing(db *v1.Database, server *Server) {
	switch {
	case !server.rolledOut():
		set(db, Progressing, true, "RollingOut", "the members are brought to what the specification says, the primary last")
	case server.desired.Annotations[desired.PendingTemplateAnnotation] == "":
		set(db, Progressing, false, "RolledOut", "all members are as the specification says")
	default:
		set(db, Progressing, false, "UpgradeQueued", "all members are as the specification says; they are restarted for this "+
			"version of the operator when fewer databases are being restarted")
	}
}

func available(db *v1.Database, server *Server, trouble string) {
	switch {
	case db.Spec.BootstrapFrom != nil && db.Status.Restored == "":
		set(db, Available, false, ReasonProvisioning, "the database does not have the data yet that it begins with")
	case server.PrimaryReady():
		set(db, Available, true, reasonAvailable, "Database accepting connections")
	case db.Spec.Hibernate:
		set(db, Available, false, "Hibernated", "nothing runs")
	case db.Status.CurrentVersion == "":
		set(db, Available, false, ReasonProvisioning, "Waiting for first replica")
	default:
		set(db, Available, false, "PrimaryNotReady", cmp.Or(trouble, "the primary does not accept connections"))
	}
}

func replication(db *v1.Database, server *Server) {
	switch n := db.Members(); {
	case db.Spec.Hibernate:
		set(db, ReplicationHealthy, false, "Hibernated", "nothing runs")
	case n == 1:
		set(db, ReplicationHealthy, true, "NoReplicas", "there is no replica that could lag")
	default:
		behind := slices.DeleteFunc(names(db, 1, int(n)), func(name string) bool {
			return slices.ContainsFunc(server.Pods, func(pod *corev1.Pod) bool { return pod.Name == name && ready(pod) })
		})
		if len(behind) == 0 {
			set(db, ReplicationHealthy, true, "Streaming", "all replicas follow the primary")
			return
		}
		set(db, ReplicationHealthy, false, "NotStreaming", strings.Join(behind, ", ")+" does not follow the primary")
	}
}

func names(db *v1.Database, from, to int) []string {
	var all []string
	for member := from; member < to; member++ {
		all = append(all, desired.PodName(db, member))
	}
	return all
}

// rolledOut reports whether all members run the current pod template.
func (s *Server) rolledOut() bool {
	live, want := s.Set, s.desired
	return live.UID != "" && live.Status.ObservedGeneration >= live.Generation && desired.SamePods(live, want) &&
		live.Status.Replicas == *want.Spec.Replicas &&
		(live.Status.CurrentRevision == live.Status.UpdateRevision || live.Status.Replicas == 0)
}

// FirstProblem returns the problem of the first pod that cannot run; "" if there is none. Retry counters are left out,
// because each change would write the status.
func FirstProblem(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if why := problem(pod); why != "" {
			return "pod " + pod.Name + ": " + why
		}
	}
	return ""
}

// cannotRun reports whether a container of the pod fails on its node.
func cannotRun(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && failure(pod) != "" }

// problem returns the reason that prevents the pod from running; "" if it runs, starts or is terminating.
func problem(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return ""
	}
	if why := failure(pod); why != "" {
		return why
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// permanentReasons are the waiting reasons whose message names the missing object or key, and has no counter of retries.
var permanentReasons = []string{
	"CreateContainerConfigError", "CreateContainerError", "InvalidImageName", "ErrImageNeverPull",
}

// failure returns the termination message of a failed container, or the waiting reason of the kubelet.
func failure(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, last := c.State.Waiting, c.LastTerminationState.Terminated
		if c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 {
			last = c.State.Terminated
		}
		switch {
		case last != nil && !ready(pod) && strings.TrimSpace(last.Message) != "": // of the scripts
			return fmt.Sprintf("container %s: %s", c.Name, strings.TrimSpace(last.Message))
		case waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason):
			why := waiting.Reason
			if text := strings.TrimSpace(waiting.Message); text != "" && slices.Contains(permanentReasons, why) {
				why += ": " + text
			}
			return fmt.Sprintf("container %s with image %s: %s", c.Name, c.Image, why)
		}
	}
	return ""
}

// Storage sets the status fields and the condition of the volumes.
func Storage(db *v1.Database, claims []*corev1.PersistentVolumeClaim, progress storage.Progress) {
	s := &db.Status
	s.Volumes = nil
	s.PendingAction = ""
	for _, c := range claims {
		asked, has := storage.Requested(c), storage.Capacity(c)
		v := v1.Volume{Name: c.Name, Requested: asked.String()}
		if c.Status.Phase == corev1.ClaimBound {
			v.Capacity = has.String()
		}
		s.Volumes = append(s.Volumes, v)
	}
	slices.SortFunc(s.Volumes, func(a, b v1.Volume) int { return strings.Compare(a.Name, b.Name) })
	if progress.Done() {
		s.Storage = db.Spec.Storage
	}
	if progress.Manual {
		s.PendingAction = "Resize storage to " + db.Spec.Storage
	}
	set(db, StorageResized, progress.Done(), progress.Reason, progress.Message)
}

// Restored returns the name of the restored dump from the termination message; "" if the pod is gone.
func Restored(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if pod.Labels[desired.ComponentLabel] != desired.RestoreComponent || pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		var result struct {
			Name string `json:"name"`
		}
		if _, message := terminationOf(pod); json.Unmarshal([]byte(message), &result) == nil {
			return result.Name
		}
	}
	return ""
}

// RestoreFailure returns the cause of a failed restore.
func RestoreFailure(pods []*corev1.Pod, job *batchv1.Job) string {
	for _, pod := range pods {
		if pod.Labels[desired.ComponentLabel] == desired.RestoreComponent && pod.Status.Phase == corev1.PodFailed {
			if _, message := terminationOf(pod); message != "" {
				return message
			}
		}
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return "it failed"
}

// State derives status.state and status.error from the conditions.
func State(db *v1.Database) {
	s := &db.Status
	s.Error = ""
	stalled, is := conditions.Get(db, conditions.Stalled), conditions.Get(db, conditions.Ready)
	switch {
	case is == nil:
	case stalled != nil && stalled.Status == metav1.ConditionTrue && backupsFailed(db, stalled.Message):
		s.State = v1.Degraded // the server itself is not affected
		if s.CurrentVersion == "" {
			s.State = v1.Provisioning
		}
	case stalled != nil && stalled.Status == metav1.ConditionTrue:
		s.State = v1.Failed
		s.Error = stalled.Message
		if s.CurrentVersion == "" {
			conditions.Set(db, conditions.Ready, metav1.ConditionFalse, reasonFailed, stalled.Message)
		}
	case is.Status == metav1.ConditionTrue:
		s.State = v1.Ready
		conditions.Set(db, conditions.Ready, metav1.ConditionTrue, reasonReady, "All replicas healthy")
	case db.Spec.Hibernate:
		s.State = v1.Hibernated
	case is.Reason == reasonFailed || is.Reason == ReasonRestoreFailed:
		s.State = v1.Failed
		s.Error = is.Message
	case s.CurrentVersion == "":
		s.State = v1.Provisioning
	default:
		s.State = v1.Degraded
	}
}

// backupsFailed reports whether the message is that of dumps that cannot be scheduled.
func backupsFailed(db *v1.Database, message string) bool {
	c := conditions.Get(db, BackupScheduled)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason != "Disabled" && strings.HasPrefix(c.Message, message)
}

func set(db *v1.Database, name string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	conditions.Set(db, name, status, reason, message)
}
