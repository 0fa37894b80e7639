package database_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// newClaim returns a new claim of 1Gi.
func newClaim(name string) *corev1.PersistentVolumeClaim {
	c := claim(name)
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return c
}

func set(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func asks(size string) testkit.Check {
	return testkit.Match("asks for "+size, func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.Resources.Requests.Storage().String() == size
	})
}

// template checks the size of the StatefulSet's claim template.
func template(size string) testkit.Check {
	return testkit.Match("a template of "+size, func(s *appsv1.StatefulSet) bool {
		return s.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String() == size
	})
}

func granted(size string) testkit.Check {
	return testkit.Match("status.storage "+size, func(db *v1.Database) bool { return db.Status.Storage == size })
}

func pending(action string) testkit.Check {
	return testkit.Match("pendingAction "+action, func(db *v1.Database) bool { return db.Status.PendingAction == action })
}

// uids returns the UIDs of pods. They do not change during an expansion.
func uids(k *testkit.K, names ...string) []types.UID {
	all := make([]types.UID, len(names))
	for i, name := range names {
		p := pod(name)
		k.Get(p)
		all[i] = p.UID
	}
	return all
}

// The volumes grow, including those of former members, without a restart. The StatefulSet's template follows.
func TestStorageGrows(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k)
	db := newDatabase("a")
	db.Spec.Replicas = new(int32(3))
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), granted("1Gi"))
	k.Update(db, func() { db.Spec.Replicas = new(int32(2)) })
	k.Eventually(db, testkit.Ready())
	k.Eventually(claim("data-a-db-2"), testkit.Exists())
	before := uids(k, "a-db-0", "a-db-1")

	k.Update(db, func() { db.Spec.Storage = "2Gi" })
	k.Eventually(db, testkit.Ready(), granted("2Gi"), pending(""),
		testkit.Reason(status.StorageResized, metav1.ConditionTrue, "Satisfied"))
	for member := range 3 {
		k.Eventually(claim(fmt.Sprintf("data-a-db-%d", member)), asks("2Gi"))
	}
	k.Eventually(claim("a-db-backup"), asks("2Gi"))
	k.Eventually(set("a-db"), template("2Gi"))
	k.Eventually(db, testkit.Ready())
	if after := uids(k, "a-db-0", "a-db-1"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods %v are now %v", before, after)
	}
	db.Spec.Storage = "1Gi"
	if err := k.Client.Update(k.Context(), db); err == nil {
		t.Error("less than every member has is accepted")
	}
}

// volumesOf creates a storage class and a volume for each claim, as without a driver.
func volumesOf(k *testkit.K, expandable bool, size string, claims ...string) string {
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: k.Namespace},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &expandable,
	}
	k.Apply(class)
	for _, name := range claims {
		k.Apply(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-" + name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
				ClaimRef: &corev1.ObjectReference{Namespace: k.Namespace, Name: name},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"},
				},
			},
		})
	}
	return class.Name
}

// A class without expansion needs manual action. The status says how, and the database continues to work.
func TestStorageWithoutExpansion(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the API server's admission reads the class from a cache of its own, which "+
		"may be behind the operator's: it rejects the first request for more then", testkit.Forbidden))
	start(k)
	db := newDatabase("a")
	db.Spec.StorageClassName = new(volumesOf(k, false, "1Gi", "data-a-db-0", "data-a-db-1", "a-db-backup"))
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), granted("1Gi"))
	k.Update(db, func() { db.Spec.Storage = "20Gi" })
	k.Eventually(db, testkit.Ready(), granted("1Gi"), pending("Resize storage to 20Gi"),
		testkit.Reason(status.StorageResized, metav1.ConditionFalse, "ExpansionNotSupported"))
	k.Eventually(claim("data-a-db-0"), asks("1Gi"))
	k.Eventually(set("a-db"), template("1Gi"))
	k.Eventually(db, testkit.Match("the dumps stay, too", func(db *v1.Database) bool {
		c := conditions.Get(db, status.BackupScheduled)
		return strings.HasSuffix(c.Message, "; claim a-db-backup stays at 1Gi: its class does not allow expansion")
	}))

	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: *db.Spec.StorageClassName}}
	k.Update(class, func() { class.AllowVolumeExpansion = new(true) })
	k.Eventually(claim("data-a-db-0"), asks("20Gi"))
	k.Eventually(claim("a-db-backup"), asks("20Gi"))
	k.Eventually(db, pending(""), testkit.Reason(status.StorageResized, metav1.ConditionFalse, "Resizing"))

	// There is no driver. An expansion that was not granted may be undone.
	k.Update(db, func() { db.Spec.Storage = "15Gi" })
	k.Eventually(claim("data-a-db-1"), asks("15Gi"))
	k.Update(db, func() { db.Spec.Storage = "1Gi" })
	k.Eventually(db, testkit.Ready(), granted("1Gi"), testkit.Reason(status.StorageResized, metav1.ConditionTrue, "Satisfied"))
}

func storageSize(amount string) *resource.Quantity { return new(resource.MustParse(amount)) }

// forbidden rejects requests for classes, as for an installation with permissions in some namespaces only.
type forbidden struct{ http.RoundTripper }

func (f forbidden) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/storageclasses") {
		return f.RoundTripper.RoundTrip(r)
	}
	status := apierrors.NewForbidden(storagev1.Resource("storageclasses"), "", nil).Status()
	body, err := json.Marshal(status)
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}

// Without permission to read classes the operator expands volumes as well.
func TestStorageGrowsWithoutClassPermission(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, testkit.WithTransport(func(rt http.RoundTripper) http.RoundTripper { return forbidden{rt} }))
	db := newDatabase("a")
	k.Apply(db)
	k.Eventually(db, testkit.Ready(), granted("1Gi"))
	k.Update(db, func() { db.Spec.Storage = "2Gi" })
	k.Eventually(db, testkit.Ready(), granted("2Gi"))
	k.Eventually(set("a-db"), template("2Gi"))

	other := newDatabase("b")
	other.Spec.StorageClassName = new(volumesOf(k, false, "1Gi", "data-b-db-0", "data-b-db-1", "b-db-backup"))
	k.Apply(other)
	k.Eventually(other, testkit.Ready())
	k.Update(other, func() { other.Spec.Storage = "2Gi" })
	k.Eventually(other, testkit.Match("the API server's message is reported", func(db *v1.Database) bool {
		c := conditions.Get(db, conditions.Ready)
		return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "must support resize")
	}))
}
