package database_test

import (
	"strings"
	"testing"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

// Settings of the operator, and settings with which a server may lose acknowledged data, are refused in every spelling that
// a server accepts.
func TestSettings(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for sentence, names := range map[string]string{
		"is the operator's own": "port HBA_FILE Include_If_Exists Data_Directory loose-skip-grant-tables loose_datadir " +
			"skip-grant-table LOOSE-Server-ID restore_command " +
			"enable_skip_grant_tables disable-networking skip_log_bin maximum_port",
		"could lose or falsify acknowledged data": "fsync FSYNC full_page_writes recovery_target_time recovery_target " +
			"replicate-do-db loose-innodb_doublewrite innodb-flush-log-at-trx-commit binlog_ignore_db slave-skip-errors " +
			"innodb_doublewrit disable_innodb_doublewrite skip-log-slave-updates loose_skip_innodb_doublewrite",
	} {
		for name := range strings.FieldsSeq(names) {
			db := newDatabase("a")
			db.Namespace = k.Namespace
			db.Spec.Configuration = map[string]v1.Setting{"work_mem": "8MB", name: "x"}
			if err := k.Client.Create(k.Context(), db); err == nil || !strings.Contains(err.Error(), sentence) {
				t.Errorf("%s: %v, want that it %s", name, err, sentence)
			}
		}
	}
	db := newDatabase("a")
	db.Spec.Configuration = map[string]v1.Setting{
		"work_mem": "8MB", "max_connections": "50", "innodb_buffer_pool_size": "1G",
		"shared_preload_libraries": "pg_stat_statements", "log_min_duration_statement": "0",
		"innodb_log_file_size": "1G", "slave_parallel_threads": "2", "archive_mode": "off",
		"enable_seqscan": "off", "skip_name_resolve": "1",
		"sync_frm": "1",
	}
	k.Apply(db)
}
