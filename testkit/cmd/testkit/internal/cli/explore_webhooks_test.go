package cli_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mailbox is the folder of an operator with webhooks.
const mailbox = "../../../../../sdk/e2e/mailbox"

// The API server calls the webhooks of each run's program, also after a crash. A program that serves none is a mistake in
// the input.
func TestExploreWebhooks(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.keepControlPlane()
	program := filepath.Join(t.TempDir(), "mailbox")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd")
	build.Dir = mailbox
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	write(t, dir, "mailbox.yaml", "apiVersion: mail.homeostat.dev/v1\nkind: Mailbox\nmetadata: {name: a}\n"+
		"spec: {address: a@example.com}\n")
	scenario := write(t, dir, "scenario.yaml", `steps:
- name: create
  apply: mailbox.yaml
  wait: {kind: ConfigMap, name: a, field: data.quota, value: "100"} # the default
- name: change
  patch: {kind: Mailbox, name: a, merge: {spec: {quotaMiB: 200}}}
- name: delete
  delete: {kind: Mailbox, name: a}
  wait: {exists: false}
`)
	config := filepath.Join(mailbox, "config")
	args := []string{
		"explore", "--crd", filepath.Join(config, "crd"), "--rbac", filepath.Join(config, "rbac"),
		"--webhooks", filepath.Join(config, "webhook"), "--scenario", scenario, "--fault", "crash-after", "--sample", "1",
	}
	got := w.run(append(args, "--", program)...)
	if got.code != 0 || !strings.Contains(got.out, "4 runs: 0 failed, 4 passed") {
		t.Errorf("exit code %d, output\n%s%s", got.code, got.out, got.err)
	}
	got = w.run(append(args, "--timeout", "10s", "--", "env", "WEBHOOK_BIND_ADDRESS=0", program)...)
	const want = "no process serves the webhooks of MutatingWebhookConfiguration mailbox-webhook and " +
		"ValidatingWebhookConfiguration mailbox-webhook: nothing listens at 127.0.0.1:"
	if got.code != 2 || !strings.Contains(got.err, want) {
		t.Errorf("exit code %d, error\n%swant\n%s", got.code, got.err, want)
	}
}
