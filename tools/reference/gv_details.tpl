{{- define "gvDetails" }}
## {{ .GroupVersionString }}
{{ range .SortedTypes }}{{ if .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- range .SortedTypes }}{{ if not .GVK }}{{ template "type" . }}{{ end }}{{ end }}
{{- end -}}
