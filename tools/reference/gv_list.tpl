{{- define "gvList" -}}
# Reference of {{ markdownTemplateValue "operator" }}

What each field means, its default, and what the API server refuses. `make generate` writes this page from [the types](../api);
`kubectl explain` says the same.
{{ range . }}{{ template "gvDetails" . }}{{ end -}}
{{- end -}}
