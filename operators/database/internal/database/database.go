// Package database reconciles Databases.
//
// This file lists the children that a reconcile applies. Package desired builds the children, internal/storage sizes the
// claims, package status writes the status and its phase, and the SDK sends the requests. Roles, a second reconciler, labels
// the primary and the replicas.
package database

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/adoption"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Options are the settings of the operator.
type Options struct {
	// Image returns the image of a server.
	Image func(engine v1.Engine, version string) (string, error)
	// ClusterDomain is the DNS suffix of Services in the status.
	ClusterDomain string
	// UpgradeTemplates lets a new version of the operator update, and so restart, the pods of unchanged databases.
	UpgradeTemplates bool
	// Now is the clock of the schedules. Nil means the time of the reconcile.
	Now func() time.Time
}

// New returns the operator of Databases.
func New(options Options) *sdk.Operator[*v1.Database] {
	return &sdk.Operator[*v1.Database]{
		Name: desired.Manager,
		Doc: "The database operator runs database servers, and keeps their data after failures, upgrades and, by default, " +
			"deletion.",
		AddToScheme: v1.AddToScheme,
		Owns: []client.Object{
			sdk.MetadataOnly(&corev1.Secret{}), &corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}, &appsv1.StatefulSet{},
			&corev1.Service{}, &policyv1.PodDisruptionBudget{}, &batchv1.Job{}, &batchv1.CronJob{}, &v1.DBSnapshot{},
		},
		Observes:  []client.Object{&corev1.Pod{}},
		Reconcile: options.reconcile,
		Summarize: status.State,
		Finalize:  options.finalize,
		NeedsFinalizer: func(db *v1.Database) bool {
			return db.Spec.DeletionProtection || db.Spec.DeletionPolicy != v1.DeletionRetain
		},
		Paused: func(db *v1.Database) bool { return db.Spec.Paused },
	}
}

// reconciliation is the state of one reconcile of a Database.
type reconciliation struct {
	*sdk.Pass[*v1.Database]

	server   status.Server
	pods     []*corev1.Pod     // of members, dumps and restores
	settings *corev1.ConfigMap // live ConfigMap; empty if there is none
	image    string
	scripts  map[string]string
	pinned   desired.PinnedTemplate
	now      time.Time

	dataClaim      string // UID of the claim with which the primary was ready last; "" if it never was
	restoreRunning bool   // the data directory of the primary is to be created from a dump
}

func (o *Options) reconcile(_ context.Context, p *sdk.Pass[*v1.Database]) error {
	db := p.Object
	is, err := o.newReconciliation(p)
	if err != nil {
		return err
	}
	status.Addresses(db, o.ClusterDomain)
	secret, err := is.applyCredentials(o.ClusterDomain)
	if err != nil {
		return err
	}
	config := is.applyConfig()
	claims, size, err := is.applyClaims(secret)
	if err != nil {
		return err
	}
	need := slices.Concat(claims, secret, config)
	restored, err := is.applyRestore(need)
	if err != nil {
		return err
	}
	if err := is.applyStatefulSet(size, o.UpgradeTemplates, need); err != nil {
		return err
	}
	open := restored && db.DeletionTimestamp == nil // nothing is written after the last dump
	sdk.Apply(p, desired.PrimaryService(db, open), adopt(db))
	sdk.Apply(p, desired.ReplicaService(db, open), adopt(db))
	sdk.Apply(p, desired.HeadlessService(db), adopt(db))
	if db.Members() > 1 {
		sdk.Apply(p, desired.DisruptionBudget(db), adopt(db))
	}
	is.applyBackups(slices.Concat(secret, config))
	if reason, message := status.Pods(db, &is.server); db.Spec.Hibernate {
		p.SetSuspended(reason, "%s", message)
	} else if reason != "" {
		p.SetNotReady(reason, "%s", message)
	}
	return nil
}

func (o *Options) newReconciliation(p *sdk.Pass[*v1.Database]) (*reconciliation, error) {
	db := p.Object
	is := &reconciliation{Pass: p, image: db.Spec.Image, now: p.Now}
	if o.Now != nil {
		is.now = o.Now()
	}
	var err error
	if is.image == "" {
		if is.image, err = o.Image(db.Spec.Engine, db.Spec.Version); err != nil {
			return nil, sdk.Invalid("InvalidImage", "no image follows from spec.version %q: %v", db.Spec.Version, err)
		}
	}
	if is.scripts, err = scripts.Of(string(db.Spec.Engine)); err != nil {
		return nil, err
	}
	is.pods = sdk.Observed(p, &corev1.Pod{})
	set, _ := sdk.Live(p, &appsv1.StatefulSet{ObjectMeta: objectMeta(desired.SetName(db))})
	is.server = status.Members(db, set, is.pods)
	is.settings, _ = sdk.Live(p, &corev1.ConfigMap{ObjectMeta: objectMeta(desired.ConfigName(db))})
	is.pinned = desired.ReadPinned(is.server.Set, is.settings, db.Status.PodTemplateDigest)
	db.Status.PodTemplateDigest = is.pinned.Digest()
	return is, is.inheritRestored()
}

// applyCredentials creates the Secret together with the Database, and never again: the passwords are stored in the data and
// cannot be regenerated.
func (r *reconciliation) applyCredentials(clusterDomain string) ([]sdk.AnyChild, error) {
	db := r.Object
	options := []sdk.ApplyOption{sdk.Retain(), sdk.CreateOnly(), adopt(db)}
	if ref := db.Spec.CredentialsSecretRef; ref != nil {
		if _, err := sdk.Ref(r.Pass, secretMetadata(ref.Name)); sdk.Reason(err) != "" {
			options = append(options, sdk.HoldBack(err))
		} else if err != nil {
			return nil, err
		}
	}
	like := &corev1.Secret{ObjectMeta: objectMeta(desired.CredentialsName(db))}
	if _, exists := sdk.Live(r.Pass, like); !exists {
		lost, err := r.credentialsLost()
		if err != nil {
			return nil, err
		}
		if lost {
			options = append(options, sdk.HoldBack(sdk.Invalid("CredentialsLost",
				"the Secret %s is gone and the data are not: restore it from a backup, or make one with the keys password, "+
					"dump-password and replication-password, the annotation %s: %s, and passwords of your choice, which the "+
					"members take over when they start", like.Name, adoption.Annotation, db.Name)))
		}
	}
	return []sdk.AnyChild{sdk.Apply(r.Pass, desired.CredentialsSecret(db, clusterDomain), options...)}, nil
}

// credentialsLost reports whether claims of this Database exist and the Secret does not.
func (r *reconciliation) credentialsLost() (bool, error) {
	switch _, err := sdk.Ref(r.Pass, secretMetadata(desired.CredentialsName(r.Object))); {
	case err == nil:
		return false, nil
	case sdk.Reason(err) == "":
		return false, err
	}
	claim, err := r.existingClaim(0)
	return claim != nil, err
}

// existingClaim returns the metadata of a member's claim, including one of a predecessor; nil if there is none.
func (r *reconciliation) existingClaim(member int) (*metav1.PartialObjectMetadata, error) {
	claims, err := findClaims(r.Pass)
	return claims[desired.ClaimName(r.Object, member)], err
}

// findClaims returns the metadata of all claims with the label of the Database by their names, whether they are its children
// or not.
func findClaims(p *sdk.Pass[*v1.Database]) (map[string]*metav1.PartialObjectMetadata, error) {
	db := p.Object
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	claims, err := sdk.Find(p, claim, client.InNamespace(db.Namespace), client.MatchingLabels{sdk.InstanceLabel: db.Name})
	byName := map[string]*metav1.PartialObjectMetadata{}
	for _, c := range claims {
		byName[c.Name] = c
	}
	return byName, err
}

// applyConfig applies the ConfigMaps with settings and scripts: the current ones and those that running pods still mount.
func (r *reconciliation) applyConfig() []sdk.AnyChild {
	db := r.Object
	keep := r.primaryState()
	r.dataClaim = keep[desired.DataClaimKey]
	current := desired.ScriptsConfigMap(db, r.scripts)
	former := map[string]bool{}
	specs := []*corev1.PodSpec{&r.server.Set.Spec.Template.Spec, &r.pinned.Template.Spec}
	for _, pod := range r.pods {
		specs = append(specs, &pod.Spec)
	}
	for _, spec := range specs {
		keys, names := desired.References(db, spec)
		for _, key := range keys {
			if text, ok := r.settings.Data[key]; ok {
				keep[key] = text
			}
		}
		for _, name := range names {
			former[name] = name != current.Name
		}
	}
	planned := []sdk.AnyChild{
		sdk.Apply(r.Pass, desired.ConfigMap(db, keep, r.pinned), adopt(db)),
		sdk.Apply(r.Pass, current, adopt(db)),
	}
	for name, other := range former {
		was := &corev1.ConfigMap{ObjectMeta: objectMeta(name)}
		if _, exists := sdk.Live(r.Pass, was); other && exists {
			sdk.Apply(r.Pass, was, sdk.CreateOnly())
		}
	}
	return planned
}

func (r *reconciliation) applyStatefulSet(size resource.Quantity, upgrade bool, need []sdk.AnyChild) error {
	db := r.Object
	fresh := desired.Template(db, r.image, desired.ScriptsName(db, r.scripts))
	want, err := desired.StatefulSet(db, r.pinned, fresh, size, false)
	if err != nil {
		return err
	}
	if usable := r.pinnedUsable(); upgrade || !usable {
		upgraded, err := desired.StatefulSet(db, r.pinned, fresh, size, true)
		if err != nil {
			return err
		}
		want = r.server.Upgrade(db, want, upgraded, usable)
	}
	r.server.SetDesired(want.DeepCopy())
	if r.restoreRunning && r.server.Set.UID == "" { // the Job creates the data directory before the first start
		return nil
	}
	sdk.Apply(r.Pass, want, sdk.AfterCreated(need...), adopt(db), sdk.OnImmutable(sdk.RecreateOrphan))
	return nil
}

// pinnedUsable reports whether all settings and scripts that the pinned template refers to still exist.
func (r *reconciliation) pinnedUsable() bool {
	keys, names := desired.References(r.Object, &r.pinned.Template.Spec)
	for _, key := range keys {
		if _, ok := r.settings.Data[key]; !ok {
			return false
		}
	}
	for _, name := range names {
		if _, ok := sdk.Live(r.Pass, &corev1.ConfigMap{ObjectMeta: objectMeta(name)}); !ok {
			return false
		}
	}
	return true
}

// applyBackups applies the CronJob of the dumps and their claim. The claim stays when backups are disabled.
func (r *reconciliation) applyBackups(need []sdk.AnyChild) {
	db := r.Object
	enabled := db.Spec.BackupEnabled == nil || *db.Spec.BackupEnabled
	claim, small := r.applyBackupClaim(enabled || db.Spec.DeletionPolicy == v1.DeletionSnapshot)
	if !enabled || claim == nil {
		status.Backups(db, status.Dumps{Pods: r.pods})
		return
	}
	want := desired.BackupCronJob(db, r.image, desired.ScriptsName(db, r.scripts), r.dataClaim)
	options := []sdk.ApplyOption{sdk.AfterCreated(append(need, claim)...), adopt(db)}
	suspended := *want.Spec.Suspend
	times, invalid := schedule.Parse(db.Spec.Backup.Schedule, db.Spec.Backup.TimeZone)
	live, exists := sdk.Live(r.Pass, &batchv1.CronJob{ObjectMeta: objectMeta(want.Name)})
	if invalid != nil && suspended && exists {
		want.Spec.Schedule = live.Spec.Schedule // suspension must not depend on a valid schedule
		want.Spec.TimeZone = live.Spec.TimeZone
	} else if invalid != nil {
		options = append(options, sdk.HoldBack(sdk.Invalid("InvalidSchedule", "spec.backup.%v", invalid)))
	}
	cron := sdk.Apply(r.Pass, want, options...)
	dumps := status.Dumps{Schedule: cron.Live(), Pods: r.pods, SizeNote: small, Now: r.now}
	if invalid == nil && !suspended {
		dumps.Next = times.Next(r.now)
		dumps.After = times.Next
		r.RequeueAfter(dumps.Next.Add(time.Second).Sub(r.now)) // for the status only; the CronJob controller has its own clock
	}
	r.OnPlanExecuted(func(children []conditions.Child) {
		dumps.Applied = backupResult(children, want.Name)
		status.Backups(r.Object, dumps)
	})
}

// backupResult returns the result of the CronJob of that name. If the CronJob waits for its claim, which has the same name,
// it returns that of the claim.
func backupResult(children []conditions.Child, name string) (result conditions.Child) {
	for _, c := range children {
		switch {
		case c.Name != name:
		case c.Kind == "PersistentVolumeClaim" && c.UID == "":
			return c
		case c.Kind == "CronJob":
			result = c
		}
	}
	return result
}

// adopt adopts the children of a predecessor that was deleted with orphan propagation.
func adopt(db *v1.Database) sdk.ApplyOption { return sdk.AdoptIf(mayAdopt(db)) }

func mayAdopt(db *v1.Database) func(client.Object) bool {
	return adoption.Permitted(desired.Manager, sdk.InstanceLabel, db.Name)
}

func secretMetadata(name string) *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{ObjectMeta: objectMeta(name)}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

func objectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
