package v1_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

const (
	ofServer = "source: {postgres: {host: db, database: shop, user: dumper, version: '16', " +
		"passwordSecretRef: {name: s, key: p}}}"
	ofClaim = "source: {persistentVolumeClaimName: data}, method: volumeSnapshot"
	inClaim = "storage: {persistentVolumeClaim: {claimName: backups}}"
	dump    = ofServer + ", " + inClaim
	daily   = ", schedule: '0 2 * * *'"
)

func TestInvalidSnapshotsAreRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	server := func(old, with string) string { return strings.Replace(dump, old, with, 1) }
	template := func(of string) string {
		return ofServer + ", storage: {persistentVolumeClaim: {template: {" + of + "}}}"
	}
	for why, c := range map[string]struct{ name, spec, field, want string }{
		"long name":         {strings.Repeat("a", 41), dump, "metadata", "choose at most 40"},
		"name with a dot":   {"a.b", dump, "metadata", "choose at most 40"},
		"name from a digit": {"1a", dump, "metadata", "beginning with a letter"},
		"name of the claim": {"backups", dump, "metadata", "choose another name"},
		"no source":         {"a", inClaim, "spec.source", "Required value"},
		"source of nothing": {"a", "source: {}, " + inClaim, "spec.source", "exactly one"},
		"two sources":       {"a", server("source: {", "source: {databaseRef: {name: shop}, "), "spec.source", "exactly one"},
		"Database of no name": {
			"a", "source: {databaseRef: {name: ''}}, " + inClaim, "spec.source.databaseRef.name", "at least 1 chars",
		},
		"no host":            {"a", server("host: db", "host: ''"), "spec.source.postgres.host", "at least 1 chars"},
		"no version":         {"a", server(", version: '16'", ""), "spec.source.postgres.version", "Required value"},
		"a version of words": {"a", server("'16'", "latest"), "spec.source.postgres.version", "must begin with the number"},
		"port 0": {
			"a", server("host: db", "host: db, port: 0"), "spec.source.postgres.port", "greater than or equal to 1",
		},
		"port 65536": {
			"a", server("host: db", "host: db, port: 65536"), "spec.source.postgres.port", "less than or equal to 65535",
		},
		"an unknown sslMode": {
			"a", server("host: db", "host: db, sslMode: no"), "spec.source.postgres.sslMode", "Unsupported value",
		},
		"verification without authorities": {
			"a", server("host: db", "host: db, sslMode: verify-full"), "spec.source.postgres", "need each other",
		},
		"authorities without verification": {
			"a", server("host: db", "host: db, sslMode: require, caSecretRef: {name: s, key: k}"), "spec.source.postgres",
			"need each other",
		},
		"no password": {
			"a", server(", passwordSecretRef: {name: s, key: p}", ""), "passwordSecretRef", "Required value",
		},
		"password of nothing": {"a", server("name: s", "name: ''"), "passwordSecretRef", "name the Secret and its key"},
		"very late": {
			"a", dump + daily + ", startingDeadlineSeconds: 31536001", "spec.startingDeadlineSeconds", "less than or equal to",
		},
		"very long": {
			"a", dump + ", activeDeadlineSeconds: 31536001", "spec.activeDeadlineSeconds", "less than or equal to",
		},
		"an age beyond numbers": {"a", dump + ", retention: {maxAge: 9999999h}", "spec.retention.maxAge", "must be a duration"},
		"an unknown method":     {"a", dump + ", method: rsync", "spec.method", "Unsupported value"},
		"dump of a claim": {
			"a", "source: {persistentVolumeClaimName: data}, " + inClaim, "spec.source.persistentVolumeClaimName",
			"a dump needs a server",
		},
		"volume of a server": {"a", ofServer + ", method: volumeSnapshot", "spec.source.postgres", "is not known"},
		"volume, and pgDump": {"a", ofClaim + ", pgDump: {format: plain}", "spec.pgDump", "is about dumps"},
		"volume to restore":  {"a", ofClaim + ", verify: restore", "spec.verify", "is not restored"},
		"volume in a claim":  {"a", ofClaim + ", " + inClaim, "spec.storage", "where dumps are kept"},
		"dump of a class": {
			"a", dump + ", volumeSnapshotClassName: fast", "spec.volumeSnapshotClassName", "is about VolumeSnapshots",
		},
		"once, suspended": {"a", dump + ", suspend: true", "spec.suspend", "is about a schedule"},
		"dump to nowhere": {"a", ofServer, "spec.storage", "needs a claim"},
		"two claims": {
			"a", ofServer + ", storage: {persistentVolumeClaim: {claimName: a, template: {size: 1Gi}}}", "persistentVolumeClaim",
			"exactly one",
		},
		"no claim": {
			"a", ofServer + ", storage: {persistentVolumeClaim: {}}", "persistentVolumeClaim", "exactly one",
		},
		"claim of nothing":  {"a", template("size: 0Gi"), "template.size", "greater than 0 in Mi, Gi or Ti"},
		"claim in bytes":    {"a", template("size: '5'"), "template.size", "in Mi, Gi or Ti"},
		"four fields":       {"a", dump + ", schedule: '0 2 * *'", "spec.schedule", "must have five fields"},
		"six fields":        {"a", dump + ", schedule: '0 0 2 * * *'", "spec.schedule", "must have five fields"},
		"an interval":       {"a", dump + ", schedule: '@every 1h'", "spec.schedule", "must have five fields"},
		"no macro":          {"a", dump + ", schedule: '@now'", "spec.schedule", "must have five fields"},
		"a zone in it":      {"a", dump + ", schedule: 'TZ=UTC 0 2 * *'", "spec.schedule", "must have five fields"},
		"an empty schedule": {"a", dump + ", schedule: ''", "spec.schedule", "must have five fields"},
		"a long schedule": {
			"a", dump + ", schedule: '" + strings.Repeat("0,", 60) + "0 2 * * *'", "spec.schedule", "Too long",
		},
		"no zone": {"a", dump + daily + ", timeZone: ''", "spec.timeZone", "at least 1 chars"},
		"no time to begin": {
			"a", dump + daily + ", startingDeadlineSeconds: 0", "spec.startingDeadlineSeconds", "greater than or equal to 10",
		},
		"no time to end": {
			"a", dump + ", activeDeadlineSeconds: 9", "spec.activeDeadlineSeconds", "greater than or equal to 10",
		},
		"fewer than no tries":  {"a", dump + ", backoffLimit: -1", "spec.backoffLimit", "greater than or equal to 0"},
		"very many tries":      {"a", dump + ", backoffLimit: 11", "spec.backoffLimit", "less than or equal to 10"},
		"an unknown format":    {"a", dump + ", pgDump: {format: tar}", "spec.pgDump.format", "Unsupported value"},
		"too much compression": {"a", dump + ", pgDump: {compression: 10}", "spec.pgDump.compression", "less than or equal to 9"},
		"image with a space":   {"a", dump + ", pgDump: {image: 'a b'}", "spec.pgDump.image", "no white space"},
		"keep nothing": {
			"a", dump + ", retention: {keepLast: 0}", "spec.retention.keepLast", "greater than or equal to 1",
		},
		"keep very many": {
			"a", dump + ", retention: {keepLast: 51}", "spec.retention.keepLast", "less than or equal to 50",
		},
		"keep very many failed": {
			"a", dump + ", retention: {keepFailed: 11}", "spec.retention.keepFailed", "less than or equal to 10",
		},
		"no age":               {"a", dump + ", retention: {maxAge: a week}", "spec.retention.maxAge", "must be a duration"},
		"of no age":            {"a", dump + ", retention: {maxAge: 0s}", "spec.retention.maxAge", "must be a duration"},
		"another policy":       {"a", dump + ", deletionPolicy: Snapshot", "spec.deletionPolicy", "Unsupported value"},
		"another verification": {"a", dump + ", verify: look", "spec.verify", "Unsupported value"},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			answer := k.Refused(object(t, "DBSnapshot", c.name, "{"+c.spec+"}"))
			if !strings.Contains(answer, c.want) || !strings.Contains(answer, c.field) {
				t.Errorf("%s\nwant %q of %s", answer, c.want, c.field)
			}
		})
	}
}

// Valid objects are accepted, with the defaults that the reference documents.
func TestValidSnapshots(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for name, spec := range map[string]string{
		"server": dump + daily, "at-once": dump, "claim": ofClaim + daily, "macro": dump + ", schedule: '@daily'",
		"names":    dump + ", schedule: '*/15 1-3,5 ? JAN-MAR MON'",
		"database": "source: {databaseRef: {name: shop}}, " + inClaim,
		"volume":   "source: {databaseRef: {name: shop}}, method: volumeSnapshot",
		"age":      dump + ", retention: {maxAge: 720h0m0s}",
	} {
		k.Apply(object(t, "DBSnapshot", name, "{"+spec+"}"))
	}
	o := &v1.DBSnapshot{}
	o.Name = "at-once"
	o.Namespace = k.Namespace
	k.Get(o)
	s := o.Spec
	if s.Method != v1.MethodDump || s.TimeZone != "UTC" || s.StartingDeadlineSeconds != 3600 ||
		s.ActiveDeadlineSeconds != 7200 ||
		*s.BackoffLimit != 2 || s.Retention.KeepLast != 7 || *s.Retention.KeepFailed != 1 ||
		s.DeletionPolicy != v1.CopiesRetained ||
		s.Verify != "list" || s.Source.Postgres.Port != 5432 || s.Source.Postgres.SSLMode != "prefer" {
		t.Errorf("the defaults are %+v", s)
	}
}

// A change of an immutable field is rejected with an instruction; other changes are accepted.
func TestSnapshotUpdates(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	of := map[string]string{
		"daily": dump + daily, "claim": ofServer + daily + ", storage: {persistentVolumeClaim: {template: {size: 1Gi}}}",
		"at-once": dump, "volume": "source: {databaseRef: {name: shop}}, method: volumeSnapshot" + daily,
	}
	for name, spec := range of {
		k.Apply(object(t, "DBSnapshot", name, "{"+spec+"}"))
	}
	for why, c := range map[string]struct{ name, spec, want string }{
		"another source": {
			"daily", strings.Replace(dump, "host: db", "host: other", 1) + daily, "are those of one database",
		},
		"another kind": {
			"volume", "source: {databaseRef: {name: shop}}, method: pgDump, " + inClaim + daily, "are of one kind",
		},
		"no schedule any more": {"daily", dump, "set spec.suspend to end one"},
		"a schedule at last":   {"at-once", dump + daily, "without a schedule"},
		"another verification": {"at-once", dump + ", verify: none", "cannot change: make a new one"},
		"pgDump of a volume":   {"volume", of["volume"] + ", pgDump: {format: plain}", "is about dumps"},
		"another class": {
			"claim", ofServer + daily + ", storage: {persistentVolumeClaim: {template: {size: 1Gi, storageClassName: fast}}}",
			"the class of a claim cannot change",
		},
		"another claim": {"daily", strings.Replace(dump, "claimName: ", "claimName: other-", 1) + daily, "in one claim"},
		"a claim of yours": {
			"claim", ofServer + daily + ", storage: {persistentVolumeClaim: {claimName: yours}}", "in one claim",
		},
		"no storage any more": {"daily", ofServer + daily, "needs a claim"},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			u := object(t, "DBSnapshot", c.name, "{"+c.spec+"}")
			u.SetNamespace(k.Namespace)
			old := object(t, "DBSnapshot", c.name, "{}")
			old.SetNamespace(k.Namespace)
			k.Get(old)
			u.SetResourceVersion(old.GetResourceVersion())
			err := k.Client.Update(k.Context(), u, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	k.Apply(object(t, "DBSnapshot", "daily", "{"+dump+", schedule: '@hourly', timeZone: Europe/Madrid, suspend: true, "+
		"retention: {keepLast: 3}, deletionPolicy: Delete, verify: restore}"))
}
