package scaffold

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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

// add executes the command add.
func add(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return usageErrorf("what is to be added? `homeostat add webhook` adds webhooks to a kind")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return flag.ErrHelp
	case "webhook":
		return addWebhook(ctx, args[1:], stdout)
	default:
		return usageErrorf("%q cannot be added: `homeostat add webhook` adds webhooks to a kind", args[0])
	}
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
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	p, err := findProject(cwd)
	if err != nil {
		return err
	}
	op, err := p.operator(r.kind)
	if err != nil {
		return err
	}
	if err := p.checkNoWebhooks(); err != nil {
		return err
	}
	if err := p.checkClean(ctx); err != nil {
		return err
	}
	w, err := p.webhooks(op, r)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	if err := renderSet("templates/webhook", op, w, files); err != nil {
		return err
	}
	if err := p.write(files, w.edits()); err != nil {
		return err
	}
	fmt.Fprintf(stdout, `%s has webhooks now: internal/webhooks/%s.go has their functions, which are examples. Next:

  change them, and run the tests of the project
  run make generate after a change of the markers
`, op.Kind, op.Singular)
	return nil
}

// checkNoWebhooks returns an error if the project has webhooks.
func (p *project) checkNoWebhooks() error {
	for _, name := range []string{"config/webhook", "internal/webhooks"} {
		if _, err := os.Lstat(filepath.Join(p.dir, name)); err == nil {
			return usageErrorf("the project has webhooks already, in %s: add another function there, as docs/webhooks.md describes",
				name)
		}
	}
	return nil
}

// webhooks is the input of the templates for webhooks.
type webhooks struct {
	*operator

	Namespace, Account, Selector string // of the Deployment
	Sample                       string // a manifest
	Validating, Defaulting       bool
}

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
	w.Sample, err = p.sample(op)
	return w, err
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
		configurations = append(configurations,
			fmt.Sprintf("+kubebuilder:webhookconfiguration:mutating=%t,name=%s-webhook", mutating, w.Name))
		hooks = append(hooks, fmt.Sprintf("+kubebuilder:webhook:path=%s,mutating=%t,failurePolicy=fail,sideEffects=None,"+
			"groups=%s,resources=%s,verbs=%s,versions=%s,name=%s,admissionReviewVersions=v1,serviceName=%s-webhook,"+
			"serviceNamespace=%s,timeoutSeconds=5", h.Path, mutating, w.Group, w.Plural, h.verb, w.Version, h.Name, w.Name,
			w.Namespace))
	}
	return append(configurations, hooks...)
}

// edits returns the lines in files of the project that use the webhooks.
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
			file: "cmd/main.go",
			by: fmt.Sprintf("replace %s.%s in the call of program.Main by webhooks.Operator, and import %s/internal/webhooks",
				w.Package, w.Var, w.Module),
			apply: replaceOperator(w.Module, w.Package, w.Var, "internal/webhooks"),
		},
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
