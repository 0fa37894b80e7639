// Package database runs a database server with its data for each Database, and makes copies of databases on time for each
// DBSnapshot.
//
// This file is the whole operator of Databases. What the children look like is in internal/desired, what the claims should
// ask for in internal/storage, what the status says in internal/report, and how all that becomes requests is the SDK's
// business.
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
	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/report"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
	"github.com/homeostat-dev/homeostat/operators/database/internal/scripts"
	"github.com/homeostat-dev/homeostat/sdk"
)

// BeginAnewAnnotation lets a database whose primary lost its volume begin with an empty one, if its value is "true". Without
// it the primary refuses to: clients would take the empty database for theirs.
const BeginAnewAnnotation = "techoral.com/begin-anew"

// New returns the operator of Databases.
func New(options Options) *sdk.Operator[*v1.Database] {
	return &sdk.Operator[*v1.Database]{
		Name:        desired.Manager,
		Doc:         "The database operator runs database servers whose data outlive whatever happens to them.",
		AddToScheme: v1.AddToScheme,
		Owns: []client.Object{
			sdk.MetadataOnly(&corev1.Secret{}), &corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}, &appsv1.StatefulSet{},
			&corev1.Service{}, &policyv1.PodDisruptionBudget{}, &batchv1.Job{}, &batchv1.CronJob{}, &v1.DBSnapshot{},
		},
		Observes:  []client.Object{&corev1.Pod{}},
		Reconcile: options.reconcile,
		Summarize: report.State,
		Finalize:  options.finalize,
		NeedsFinalizer: func(db *v1.Database) bool {
			return db.Spec.DeletionProtection || db.Spec.DeletionPolicy == v1.DeletionSnapshot
		},
		Paused: func(db *v1.Database) bool { return db.Spec.Paused },
	}
}

// observed is what a pass over a Database begins with.
type observed struct {
	*sdk.Pass[*v1.Database]

	server   report.Server
	pods     []*corev1.Pod     // of members, dumps and restores
	settings *corev1.ConfigMap // as they are, empty if there are none
	begun    bool              // the database has data
	image    string
	scripts  map[string]string
	pin      desired.Pin
	now      time.Time
}

func (o *Options) reconcile(_ context.Context, p *sdk.Pass[*v1.Database]) error {
	db := p.Object
	is, err := o.observe(p)
	if err != nil {
		return err
	}
	report.Addresses(db, o.clusterDomain())
	secret, err := is.credentials(o.clusterDomain())
	if err != nil {
		return err
	}
	config := is.config()
	claims, size, err := is.claims(secret)
	if err != nil {
		return err
	}
	need := slices.Concat(claims, secret, config)
	if err := is.set(size, o.UpgradeTemplates, need); err != nil {
		return err
	}
	restored, err := is.restore(config)
	if err != nil {
		return err
	}
	sdk.Apply(p, desired.Primary(db, restored), adopt(db))
	sdk.Apply(p, desired.Replicas(db, restored), adopt(db))
	sdk.Apply(p, desired.Headless(db), adopt(db))
	if db.Members() > 1 {
		sdk.Apply(p, desired.Disruption(db), adopt(db))
	}
	is.backups(slices.Concat(secret, config))
	if reason, message := report.Pods(db, &is.server); db.Spec.Hibernate {
		p.Suspended(reason, "%s", message)
	} else if reason != "" {
		p.NotReady(reason, "%s", message)
	}
	return nil
}

func (o *Options) observe(p *sdk.Pass[*v1.Database]) (*observed, error) {
	db := p.Object
	is := &observed{Pass: p, image: db.Spec.Image, now: p.Now}
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
	set, _ := sdk.Live(p, &appsv1.StatefulSet{ObjectMeta: named(desired.SetName(db))})
	is.server = report.Members(db, set, is.pods)
	is.settings, _ = sdk.Live(p, &corev1.ConfigMap{ObjectMeta: named(desired.ConfigName(db))})
	is.pin = desired.PinOf(is.server.Set, is.settings)
	is.begun = is.settings.Data[desired.BegunKey] != "" || is.server.PrimaryReady()
	return is, is.recallRestored()
}

// credentials sees to the Secret. It is made when the database is, and never again: other passwords would not be those that
// the data know.
func (is *observed) credentials(clusterDomain string) ([]sdk.Planned, error) {
	db := is.Object
	options := append(is.retained(), sdk.CreateOnly(), adopt(db))
	if ref := db.Spec.CredentialsSecretRef; ref != nil {
		if _, err := sdk.Ref(is.Pass, secretMetadata(ref.Name)); sdk.Reason(err) != "" {
			options = append(options, sdk.HoldBack(err))
		} else if err != nil {
			return nil, err
		}
	}
	like := &corev1.Secret{ObjectMeta: named(desired.CredentialsName(db))}
	if _, exists := sdk.Live(is.Pass, like); !exists {
		lost, err := is.lostCredentials()
		if err != nil {
			return nil, err
		}
		if lost {
			options = append(options, sdk.HoldBack(sdk.Invalid("CredentialsLost",
				"the Secret %s is gone and the data are not: restore it from a backup, or make one with the keys password, "+
					"superuser-password and replication-password, the label %s: %s, and passwords of your choice, which the "+
					"members take over when they start", like.Name, sdk.InstanceLabel, db.Name)))
		}
	}
	return []sdk.Planned{sdk.Apply(is.Pass, desired.Credentials(db, clusterDomain), options...)}, nil
}

// lostCredentials reports whether there are claims of this Database and no Secret that belongs to them.
func (is *observed) lostCredentials() (bool, error) {
	db := is.Object
	secret := secretMetadata("")
	ours := []client.ListOption{client.InNamespace(db.Namespace), client.MatchingLabels{sdk.InstanceLabel: db.Name}}
	secrets, err := sdk.Find(is.Pass, secret, ours...)
	if err != nil {
		return false, err
	}
	for _, s := range secrets {
		if s.Name == desired.CredentialsName(db) {
			return false, nil
		}
	}
	claim, err := is.leftClaim()
	return claim != nil, err
}

// leftClaim returns what is known of the claim of the primary, also of one that a former Database left; nil if there is
// none.
func (is *observed) leftClaim() (*metav1.PartialObjectMetadata, error) {
	db := is.Object
	claim := &metav1.PartialObjectMetadata{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	claims, err := sdk.Find(is.Pass, claim, client.InNamespace(db.Namespace), client.MatchingLabels{sdk.InstanceLabel: db.Name})
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if c.Name == desired.ClaimName(db, 0) {
			return c, nil
		}
	}
	return nil, nil //nolint:nilnil // absence is an answer
}

// config sees to the settings and scripts: those that the pods should have, and those that some of them still have.
func (is *observed) config() []sdk.Planned {
	db := is.Object
	keep := map[string]string{}
	current := desired.Scripts(db, is.scripts)
	former := map[string]bool{}
	specs := []*corev1.PodSpec{&is.server.Set.Spec.Template.Spec, &is.pin.Template.Spec}
	for _, pod := range is.pods {
		specs = append(specs, &pod.Spec)
	}
	for _, spec := range specs {
		keys, names := desired.Uses(db, spec)
		for _, key := range keys {
			if text, ok := is.settings.Data[key]; ok {
				keep[key] = text
			}
		}
		for _, name := range names {
			former[name] = name != current.Name
		}
	}
	planned := []sdk.Planned{
		sdk.Apply(is.Pass, desired.Config(db, keep, is.begun && db.Annotations[BeginAnewAnnotation] != "true", is.pin), adopt(db)),
		sdk.Apply(is.Pass, current, adopt(db)),
	}
	for name, other := range former {
		was := &corev1.ConfigMap{ObjectMeta: named(name)}
		if _, exists := sdk.Live(is.Pass, was); other && exists {
			sdk.Apply(is.Pass, was, sdk.CreateOnly())
		}
	}
	return planned
}

// set sees to the StatefulSet.
func (is *observed) set(size resource.Quantity, upgrade bool, need []sdk.Planned) error {
	db := is.Object
	fresh := desired.Template(db, is.image, desired.ScriptsName(db, is.scripts))
	want, err := desired.Set(db, is.pin, fresh, size, upgrade || !is.pinnable())
	if err != nil {
		return err
	}
	is.server.Want(want.DeepCopy())
	sdk.Apply(is.Pass, want, sdk.AfterCreated(need...), adopt(db), sdk.OnImmutable(sdk.RecreateOrphan))
	return nil
}

// pinnable reports whether everything is there that the pods of the template that was written last refer to.
func (is *observed) pinnable() bool {
	keys, names := desired.Uses(is.Object, &is.pin.Template.Spec)
	for _, key := range keys {
		if _, ok := is.settings.Data[key]; !ok {
			return false
		}
	}
	for _, name := range names {
		if _, ok := sdk.Live(is.Pass, &corev1.ConfigMap{ObjectMeta: named(name)}); !ok {
			return false
		}
	}
	return true
}

// backups sees to the dumps and to their claim, which stays when there are to be no more.
func (is *observed) backups(need []sdk.Planned) {
	db := is.Object
	enabled := db.Spec.BackupEnabled == nil || *db.Spec.BackupEnabled
	claim, small := is.backupClaim(enabled || db.Spec.DeletionPolicy == v1.DeletionSnapshot)
	if !enabled || claim == nil {
		report.Backups(db, report.Dumps{Pods: is.pods})
		return
	}
	cron := sdk.Apply(is.Pass, desired.Schedule(db, is.image, desired.ScriptsName(db, is.scripts)),
		sdk.AfterCreated(append(need, claim)...), adopt(db))
	dumps := report.Dumps{Schedule: cron.Live(), Pods: is.pods, Small: small, Now: is.now}
	times, err := schedule.Parse(db.Spec.Backup.Schedule, db.Spec.Backup.TimeZone)
	if err == nil && !db.Spec.Backup.Suspend && !db.Spec.Hibernate { // what is wrong is said when the CronJob is applied
		dumps.Next, dumps.After = times.Next(is.now), times.Next
		is.RequeueAfter(dumps.Next.Add(time.Second).Sub(is.now)) // the CronJob has a clock of its own, and this is for the status
	}
	report.Backups(db, dumps)
}

// retained lets a child outlive the Database, unless it is told that nothing should.
func (is *observed) retained() []sdk.ApplyOption {
	if is.Object.Spec.DeletionPolicy == v1.DeletionDelete {
		return nil
	}
	return []sdk.ApplyOption{sdk.Retain()}
}

// adopt takes over what a Database of that name left that was deleted without its children.
func adopt(db *v1.Database) sdk.ApplyOption { return sdk.AdoptIf(ofInstance(db)) }

// ofInstance reports whether an object was left by a Database of that name.
func ofInstance(db *v1.Database) func(client.Object) bool {
	return func(o client.Object) bool { return o.GetLabels()[sdk.InstanceLabel] == db.Name }
}

func secretMetadata(name string) *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{ObjectMeta: named(name)}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
