{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}

{{ .Doc | replace "<" "&lt;" }}
{{- with .References }}

In{{ range $i, $t := $.SortedReferences }}{{ if $i }},{{ end }} {{ markdownRenderTypeLink $t }}{{ end }}.
{{- end }}
{{- if and .Validation (not .EnumValues) }}

It is a {{ markdownRenderType .UnderlyingType }}:{{ template "validation" . }}
{{- end }}
{{- with .EnumValues }}

One of
{{ range . }}
- `{{ .Name }}`{{ with trim .Doc }}: {{ . | replace "\n" " " | replace "<" "&lt;" }}{{ end }}
{{- end }}
{{- end }}
{{- with index .Markers "kubebuilder:validation:XValidation" }}

Refused, with the sentence:
{{ range . }}
- {{ .Message | replace "<" "&lt;" }}
{{- end }}
{{- end }}
{{- with .Members }}

| field | type | default | |
|---|---|---|---|
{{- if $.GVK }}
| `apiVersion` | string | | `{{ $.GVK.Group }}/{{ $.GVK.Version }}` |
| `kind` | string | | `{{ $.GVK.Kind }}` |
{{- end }}
{{- range . }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ template "default" . }}| {{ template "type_members" . }} |
{{- end }}
{{- end }}
{{ end -}}
{{- end -}}

{{- define "default" -}}
{{- with index .Markers "kubebuilder:default" }}`{{ (index . 0).Value | toJson }}` {{ else }}{{ with .Default }}`{{ . }}` {{ end }}{{ end -}}
{{- end -}}

{{- define "validation" -}}
{{- range .Validation -}}
{{- if eq . "Required: {}" }} **Required.**
{{- else if hasPrefix "Enum: [" . }} One of `{{ . | trimPrefix "Enum: [" | trimSuffix "]" | replace " " "`, `" }}`.
{{- else if hasPrefix "items:Enum: [" . }} Each one of `{{ . | trimPrefix "items:Enum: [" | trimSuffix "]" | replace " " "`, `" }}`.
{{- else if eq . "Optional: {}" "Type: object" }}
{{- else }} {{ . | replace "|" "\\|" }}.
{{- end -}}
{{- end -}}
{{- end -}}
