package scaffold

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// webhookRequest holds the arguments of `homeostat add webhook`.
type webhookRequest struct {
	kind                   string
	validating, defaulting bool
}

func parseWebhook(args []string) (webhookRequest, error) {
	var r webhookRequest
	flags := flag.NewFlagSet("add webhook", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error has the same text
	flags.StringVar(&r.kind, "kind", "", "")
	flags.BoolVar(&r.validating, "validating", false, "")
	flags.BoolVar(&r.defaulting, "defaulting", false, "")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return r, err
	} else if err != nil {
		return r, usageErrorf("%w: `homeostat add --help` lists the flags", err)
	}
	if flags.NArg() > 0 {
		return r, usageErrorf("%q is not expected: name the kind by --kind", flags.Arg(0))
	}
	if !r.validating && !r.defaulting {
		r.validating = true
		r.defaulting = true
	}
	return r, nil
}

func addWebhook(ctx context.Context, args []string, stdout io.Writer) error {
	r, err := parseWebhook(args)
	if err != nil {
		return err
	}
	p, err := openProject()
	if err != nil {
		return err
	}
	op, err := p.operator(r.kind)
	if err != nil {
		return err
	}
	admission := op.HooksDir() + "/" + op.Singular + "_admission.go"
	if p.exists(admission) {
		return usageErrorf("the kind %s has webhooks already, in %s: add another function there, as docs/webhooks.md describes",
			op.Kind, admission)
	}
	if err := p.checkClean(ctx); err != nil {
		return err
	}
	w, err := p.webhooks(op, r)
	if err != nil {
		return err
	}
	files, edits, err := w.parts(p)
	if err != nil {
		return err
	}
	manifests := "config/webhook/manifests.yaml"
	isFirst := !p.exists(manifests)
	if !isFirst { // it gets more webhooks by controller-gen
		delete(files, manifests)
	}
	if files, err = p.apply(files, edits); err != nil {
		return err
	}
	if !isFirst {
		if files, err = p.generate(ctx, files); err != nil {
			return err
		}
	}
	if err := p.write(files); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has webhooks now: %s has their functions, which are examples.%s", op.Kind, admission,
		p.next(`  change the functions, and run the tests of the project
  run make generate after a change of the markers
`))
	return nil
}

// exists reports whether the project has a file or folder.
func (p *project) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(p.dir, filepath.FromSlash(name)))
	return err == nil
}

// webhooks is the input of the templates for webhooks.
type webhooks struct {
	*operator

	Namespace, Account, Selector string // of the Deployment
	SampleFile                   string // a manifest

	Validating, Defaulting, Conversion bool

	configured string // the manifests of other webhooks
}

// Admission reports whether there are admission webhooks.
func (w *webhooks) Admission() bool { return w.Validating || w.Defaulting }

// hook is a webhook in the manifests.
type hook struct{ Configuration, Path, Name, verb string }

var (
	namespaceLine = regexp.MustCompile(`(?m)^  namespace: (\S+)$`)
	accountLine   = regexp.MustCompile(`(?m)^      serviceAccountName: (\S+)$`)
	selectorLine  = regexp.MustCompile(`(?m)^      app\.kubernetes\.io/name: (\S+)$`)
)

// webhooks reads what the manifests need from those of the Deployment.
func (p *project) webhooks(op *operator, r webhookRequest) (*webhooks, error) {
	w := &webhooks{operator: op, Validating: r.validating, Defaulting: r.defaulting}
	deployment, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(deploymentFile)))
	if err != nil {
		return nil, fmt.Errorf("reading the project: %w", err)
	}
	for _, value := range []struct {
		line *regexp.Regexp
		to   *string
		name string
	}{
		{namespaceLine, &w.Namespace, "namespace"},
		{accountLine, &w.Account, "serviceAccountName"},
		{selectorLine, &w.Selector, "app.kubernetes.io/name among the labels of its selector"},
	} {
		match := value.line.FindSubmatch(deployment)
		if match == nil {
			return nil, usageErrorf("%s has no %s in the notation of `homeostat new`: add it", deploymentFile, value.name)
		}
		*value.to = string(match[1])
	}
	w.SampleFile, err = p.sample(op)
	if err != nil {
		return nil, err
	}
	configured, err := os.ReadFile(filepath.Join(p.dir, "config", "webhook", "manifests.yaml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	w.configured = string(configured)
	return w, nil
}

// parts returns the files and the edits for webhooks that the project does not have.
func (w *webhooks) parts(p *project) (map[string][]byte, []edit, error) {
	var sets []string
	var edits []edit
	if w.Admission() {
		sets = append(sets, "admission")
	}
	if p.exists(w.HooksDir()) {
		edits = append(edits, w.packageEdits()...)
	} else {
		sets = append(sets, "webhook")
		edits = append(edits, w.programEdit())
	}
	if p.exists("config/webhook") {
		edits = append(edits, w.configEdits()...)
	} else {
		sets = append(sets, "webhookconfig")
		edits = append(edits, w.edits()...)
	}
	files, err := renderSets(w.operator, w, sets...)
	if err == nil && w.Validating && p.exists("olm") {
		err = w.addRefused(p, files)
	}
	return files, edits, err
}

var sampleName = regexp.MustCompile(`(?m)^metadata:\n  name: \S+\n`)

// addRefused adds an object that validate refuses, which make olm-test creates. It is the sample with an annotation. If the
// sample has other metadata than a name, there is no such file.
func (w *webhooks) addRefused(p *project, files map[string][]byte) error {
	sample, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(w.SampleFile)))
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	if len(sampleName.FindAllIndex(sample, 2)) != 1 || bytes.Contains(sample, []byte("\n  annotations:")) {
		return nil
	}
	metadata := fmt.Sprintf("metadata:\n  name: refused\n  annotations:\n    %s/keep: perhaps\n", w.Group)
	files["olm/refused/"+w.Singular+".yaml"] = append(
		[]byte("# make olm-test creates this object, and expects that the webhook refuses it.\n"),
		sampleName.ReplaceAll(sample, []byte(metadata))...)
	return nil
}

// Fields returns the fields of the operator with webhooks.
func (w *webhooks) Fields() []string {
	var fields []string
	if w.Defaulting {
		fields = append(fields, "Default: setDefaults")
	}
	if w.Validating {
		fields = append(fields, "Validate: validate", "ValidateDelete: validateDelete")
	}
	if w.Conversion {
		fields = append(fields, "Conversion: versions.Handler()")
	}
	return fields
}

// EnvFields returns the fields of the environment of the tests.
func (w *webhooks) EnvFields() []string {
	var fields []string
	if w.Admission() {
		fields = append(fields, `Webhooks: "../../config/webhook/manifests.yaml"`)
	}
	if w.Conversion {
		fields = append(fields, "Conversion: versions.Handler()")
	}
	return fields
}

// Rule returns the permissions that renewing the certificate authority needs.
func (w *webhooks) Rule() string {
	var rule string
	if w.Admission() {
		rule += fmt.Sprintf("  - apiGroups: [admissionregistration.k8s.io]\n    resources: [%s]\n"+
			"    resourceNames: [%s-webhook]\n    verbs: [get, list, watch, patch]\n", w.Configurations(), w.Program)
	}
	if w.Conversion {
		rule += fmt.Sprintf("  - apiGroups: [apiextensions.k8s.io]\n    resources: [customresourcedefinitions]\n"+
			"    resourceNames: [%s.%s]\n    verbs: [get, list, watch, patch]\n", w.Plural, w.Group)
	}
	return rule
}

// Hooks returns the webhooks in the order of controller-gen.
func (w *webhooks) Hooks() []hook {
	resource := w.Plural + "." + w.Group
	path := "-" + strings.ReplaceAll(w.Group, ".", "-") + "-" + w.Version + "-" + strings.ToLower(w.Kind)
	var all []hook
	if w.Defaulting {
		all = append(all, hook{"MutatingWebhookConfiguration", "/mutate" + path, "default." + resource, "create;update"})
	}
	if w.Validating {
		all = append(all, hook{
			"ValidatingWebhookConfiguration", "/validate" + path, "validate." + resource, "create;update;delete",
		})
	}
	return all
}

// Operations returns the operations in the notation of a webhook configuration.
func (h hook) Operations() []string { return strings.Split(strings.ToUpper(h.verb), ";") }

// Configurations returns the resources of the webhook configurations.
func (w *webhooks) Configurations() string {
	var all []string
	for _, h := range w.Hooks() {
		all = append(all, strings.ToLower(h.Configuration)+"s")
	}
	return strings.Join(all, ", ")
}

// Markers returns the lines from which controller-gen writes the configurations.
func (w *webhooks) Markers() []string {
	var configurations, hooks []string
	for _, h := range w.Hooks() {
		mutating := h.Configuration == "MutatingWebhookConfiguration"
		if !strings.Contains(w.configured, "kind: "+h.Configuration+"\n") { // one marker configures the webhooks of all kinds
			configurations = append(configurations,
				fmt.Sprintf("+kubebuilder:webhookconfiguration:mutating=%t,name=%s-webhook", mutating, w.Program))
		}
		hooks = append(hooks, fmt.Sprintf("+kubebuilder:webhook:path=%s,mutating=%t,failurePolicy=fail,sideEffects=None,"+
			"groups=%s,resources=%s,verbs=%s,versions=%s,name=%s,admissionReviewVersions=v1,serviceName=%s-webhook,"+
			"serviceNamespace=%s,timeoutSeconds=5", h.Path, mutating, w.Group, w.Plural, h.verb, w.Version, h.Name, w.Program,
			w.Namespace))
	}
	return append(configurations, hooks...)
}

// edits returns the lines in the manifests of the project that use config/webhook.
func (w *webhooks) edits() []edit {
	const (
		port     = "            - name: webhook\n              containerPort: 9443\n"
		rule     = "    - ports:\n        - port: webhook\n          protocol: TCP\n"
		resource = "  - ../webhook\n"
		argument = "      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --webhook-bind-address=0}\n"
		watch    = "      - {op: add, path: /spec/template/spec/containers/0/args/-, value: --watch-namespaces=default}\n"
	)
	return []edit{
		{
			file: deploymentFile, by: "add a port to the container:\n" + port,
			apply: insertAfter("            - name: probes\n              containerPort: 8081\n", port),
		},
		{
			file: "config/manager/network_policy.yaml", optional: true, by: "add a rule to spec.ingress:\n" + rule,
			apply: insertAfter("    - ports:\n        - port: metrics\n          protocol: TCP\n", rule),
		},
		{
			file: "config/default/kustomization.yaml", by: "add to the resources:\n" + resource,
			apply: insertAfter("  - ../manager\n", resource),
		},
		{
			// Webhook configurations are cluster-wide, so that the installation for one namespace has none.
			file: "config/namespaced/kustomization.yaml", optional: true, by: "add to the patch of the Deployment:\n" + argument,
			apply: insertAfter(watch, argument),
		},
	}
}

// programLines are for a program.Program: the flags and the operator, the latter after the one without webhooks is made.
const programLines = `let the program run %[3]s.Operator in place of %[1]s.%[2]s, or of a copy of that.
In a program.Program:

	import (
		"%[4]s/%[5]s"
		"github.com/homeostat-dev/homeostat/sdk/webhook"
	)

	// in Flags
	webhook.DefineFlags(fs)

	// in Operators, where op is the operator that it has returned so far
	hooked := *%[3]s.Operator
	hooked.Operator = op
	return []program.Runnable{&hooked}, nil`

// programEdit returns the edit of the program, which runs the operator with its webhooks.
func (w *webhooks) programEdit() edit {
	return edit{
		file: "cmd/main.go", later: true,
		by:    fmt.Sprintf(programLines, w.Package, w.Var, w.HooksPackage(), w.Module, w.HooksDir()),
		apply: replaceOperator(w.Module, w.Import(), w.Package, w.Var, w.HooksDir()),
	}
}

// packageEdits returns the edits of a package with other webhooks of the kind.
func (w *webhooks) packageEdits() []edit {
	operator := edit{
		file: w.HooksDir() + "/" + w.Singular + ".go", by: "add to Operator: " + strings.Join(w.Fields(), ", "),
		apply: insertFields("webhook", "Operator", w.Fields()),
	}
	env := edit{
		file: w.HooksDir() + "/main_test.go", by: "add to testkit.Env: " + strings.Join(w.EnvFields(), ", "),
		apply: insertFields("testkit", "Env", w.EnvFields()),
	}
	if w.Conversion {
		operator.apply = addImport(w.Module+"/internal/versions", operator.apply)
		env.apply = addImport(w.Module+"/internal/versions", env.apply)
	}
	return []edit{operator, env}
}

// configEdits returns the edits of a config/webhook with other webhooks.
func (w *webhooks) configEdits() []edit {
	const manifests = "  - manifests.yaml\n"
	head := "kind: ClusterRole\nmetadata:\n  name: " + w.Program + "-webhook\nrules:\n"
	edits := []edit{{
		file: "config/webhook/rbac.yaml", by: "add to the rules of the ClusterRole:\n" + w.Rule(),
		apply: insertAfter(head, w.Rule()),
	}}
	if w.Admission() {
		edits = append(edits, edit{
			file: "config/webhook/kustomization.yaml", by: "add to the resources:\n" + manifests,
			apply: insertAfter("resources:\n", manifests),
		})
	}
	return edits
}
