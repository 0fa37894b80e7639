package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API version of all kinds.
var GroupVersion = schema.GroupVersion{Group: "mutants.homeostat.dev", Version: "v1"}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&App{}, &AppList{},
		&Archive{}, &ArchiveList{},
		&Backup{}, &BackupList{},
		&Batch{}, &BatchList{},
		&Bucket{}, &BucketList{},
		&Cache{}, &CacheList{},
		&Feed{}, &FeedList{},
		&Mirror{}, &MirrorList{},
		&Page{}, &PageList{},
		&Portal{}, &PortalList{},
		&Proxy{}, &ProxyList{},
		&Quorum{}, &QuorumList{},
		&Route{}, &RouteList{},
		&Share{}, &ShareList{},
		&Sidecar{}, &SidecarList{},
		&Site{}, &SiteList{},
		&Snapshot{}, &SnapshotList{},
		&Timer{}, &TimerList{},
		&Transfer{}, &TransferList{},
		&Website{}, &WebsiteList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Status is what every kind reports.
type Status struct {
	// ObservedGeneration is the generation of the spec that was carried out last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions holds Ready: everything is as this generation of the spec says.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CommonStatus returns the common part of the status.
func (s *Status) CommonStatus() *Status { return s }
