package scaffold

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// newVersion is a version that is added to a kind. It is the input of its templates.
type newVersion struct {
	*operator // with the new version

	OldVersion, OldAPI, OldSampleFile, SampleFile string

	ListKeys string // a Go expression: those of both versions, whose types are equal
}

// definitionFile returns the name of the file that controller-gen writes for the kind.
func (op *operator) definitionFile() string {
	return "config/crd/" + op.Group + "_" + op.Plural + ".yaml"
}

// addVersion executes the command `homeostat add version`.
func addVersion(ctx context.Context, args []string, stdout io.Writer) error {
	var kind string
	flags := flag.NewFlagSet("add version", flag.ContinueOnError)
	flags.StringVar(&kind, "kind", "", "")
	version, err := parseName(flags, args)
	if err != nil {
		return err
	}
	if version == "" {
		return usageErrorf("give the name of the version, for example `homeostat add version v1beta1`")
	}
	p, err := openProject()
	if err != nil {
		return err
	}
	op, err := p.operator(kind)
	if err != nil {
		return err
	}
	v, err := p.newVersion(op, version)
	if err != nil {
		return err
	}
	if err := p.checkClean(ctx); err != nil {
		return err
	}
	files, err := p.versionFiles(op, v)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Generating the code and the manifests of %s, which takes a minute the first time\n", version)
	if files, err = p.generate(ctx, files); err != nil {
		return err
	}
	switch keys, err := listKeys(files[op.definitionFile()], version); {
	case err != nil:
		return fmt.Errorf("reading %s: %w", op.definitionFile(), err)
	case keys != v.ListKeys:
		return usageErrorf("%s is older than %s: run `make generate`, commit what it changes and repeat the command",
			op.definitionFile(), op.API)
	}
	if err := p.write(files); err != nil {
		return err
	}
	steps := fmt.Sprintf(`  change its types in %[1]s
  write a lens for each field that differs, in internal/versions/%[2]s.go
  run make generate and the tests of the project
  let the operator use %[1]s: import it, and add Conversion: versions.Handler() to testkit.Env of its tests
`, v.API, op.Singular)
	fmt.Fprintf(stdout, "%s has the version %s now, which is served and not stored.%s", op.Kind, version, p.next(steps))
	return nil
}

// newVersion returns the version with its names. It is an error if the kind has it.
func (p *project) newVersion(op *operator, version string) (*newVersion, error) {
	changed := *op
	changed.Version = version
	changed.API = path.Join(path.Dir(op.API), version)
	if err := checkVersion(&changed); err != nil {
		return nil, err
	}
	files, err := p.parse(changed.API)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if typeOf(file, op.Kind) != nil {
			return nil, usageErrorf("the kind %s has the version %s, in %s: choose another one", op.Kind, version, changed.API)
		}
	}
	if group := groupOf(files); group != "" && group != op.Group {
		return nil, usageErrorf("%s has the group %s, and the kind %s has %s: a package has one group", changed.API, group,
			op.Kind, op.Group)
	}
	v := &newVersion{operator: &changed, OldVersion: op.Version, OldAPI: op.API}
	if v.OldSampleFile, err = p.sample(op); err != nil {
		return nil, err
	}
	crd, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(op.definitionFile())))
	if err != nil {
		return nil, fmt.Errorf("reading the definition of the kind: %w", err)
	}
	if v.ListKeys, err = listKeys(crd, op.Version); err != nil {
		return nil, fmt.Errorf("reading %s: %w", op.definitionFile(), err)
	}
	v.SampleFile = strings.TrimSuffix(v.OldSampleFile, ".yaml") + "_" + version + ".yaml"
	return v, nil
}

// versionFiles returns all files that the version needs, as they are before controller-gen runs.
func (p *project) versionFiles(op *operator, v *newVersion) (map[string][]byte, error) {
	w, err := p.webhooks(op, webhookRequest{})
	if err != nil {
		return nil, err
	}
	w.Conversion = true
	files, edits, err := w.parts(p)
	if err != nil {
		return nil, err
	}
	var sets []string
	isSecond := !p.exists("internal/versions/" + op.Singular + ".go")
	if isSecond {
		sets = append(sets, "version")
	}
	if !p.exists("internal/versions") {
		sets = append(sets, "versions")
	} else if isSecond {
		edits = append(edits, edit{
			file: "internal/versions/versions.go", by: "add " + op.Kind + " to kinds",
			apply: insertAfter("var kinds = []*conversion.Kind{\n", "\t"+op.Kind+",\n"),
		})
	}
	if !p.exists(v.API) {
		sets = append(sets, "api")
	} else {
		const anchor = "\tmetav1.AddToGroupVersion(s, GroupVersion)\n"
		line := fmt.Sprintf(addKnownTypes, op.Kind)
		edits = append(edits, edit{
			file: v.API + "/register.go", by: "add to AddToScheme:\n" + line, apply: insertAfter(anchor, line),
		})
	}
	rendered, err := renderSets(v.operator, v, sets...)
	if err != nil {
		return nil, err
	}
	types, marker, err := p.copyTypes(op, v)
	if err != nil {
		return nil, err
	}
	sample, err := p.copySample(v)
	if err != nil {
		return nil, err
	}
	for _, more := range []map[string][]byte{rendered, types, {v.SampleFile: sample}} {
		maps.Copy(files, more)
	}
	edits = append(edits, marker...)
	return p.apply(files, append(edits, v.edits(w, isSecond)...))
}

// edits returns the lines in files of the project that use the version.
func (v *newVersion) edits(w *webhooks, isSecond bool) []edit {
	sample := "  - " + path.Base(v.SampleFile) + "\n"
	edits := []edit{{
		file: "config/samples/kustomization.yaml", by: "add to the resources:\n" + sample,
		apply: insertAfter("resources:\n", sample),
	}}
	if !isSecond {
		line := fmt.Sprintf("\t\t{Name: %q, Type: &%s.%s{}, ListKeys: %s},\n", v.Version, v.Version, v.Kind, v.ListKeys)
		return append(edits, edit{
			file: "internal/versions/" + v.Singular + ".go", by: "add to Versions:\n" + line,
			apply: addImport(v.Module+"/"+v.API, insertAfter("\tVersions: []conversion.Version{\n", line)),
		})
	}
	target := "  - target: {kind: CustomResourceDefinition, name: " + v.Plural + "." + v.Group + "}\n    patch: |\n"
	conversion := target + "      - op: add\n        path: /spec/conversion\n        value:\n          strategy: Webhook\n" +
		"          webhook:\n            conversionReviewVersions: [v1]\n            clientConfig:\n" +
		"              service: {name: " + v.Program + "-webhook, namespace: " + w.Namespace + ", path: /convert}\n"
	none := "  # Without webhooks, the API server changes only the version of an object.\n" + target +
		"      - {op: remove, path: /spec/conversion}\n"
	return append(
		edits,
		edit{file: "config/crd/kustomization.yaml", by: "add to the patches:\n" + conversion, apply: addPatch(conversion)},
		edit{
			file: "config/namespaced/kustomization.yaml", optional: true, by: "add to the patches:\n" + none, apply: addPatch(none),
		},
	)
}

// addPatch adds a patch to a kustomization.
func addPatch(patch string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		if !bytes.Contains(content, []byte("\npatches:\n")) {
			content = append(bytes.TrimRight(content, "\n"), "\npatches:\n"...)
		}
		return insertAfter("patches:\n", patch)(content)
	}
}

// copySample returns the sample in the new version, under another name.
func (p *project) copySample(v *newVersion) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(v.OldSampleFile)))
	if err != nil {
		return nil, fmt.Errorf("reading the sample: %w", err)
	}
	var lines []string
	apiVersion := "apiVersion: " + v.Group + "/"
	for line := range strings.Lines(string(content)) {
		if text := strings.TrimRight(line, "\n"); strings.HasPrefix(text, "  name: ") && !slices.Contains(lines, "spec:\n") {
			line = text + "-" + v.Version + "\n"
		}
		lines = append(lines, strings.Replace(line, apiVersion+v.OldVersion, apiVersion+v.Version, 1))
	}
	return []byte(strings.Join(lines, "")), nil
}
