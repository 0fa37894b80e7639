{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}
as for all objects
{{- else -}}
{{ .Doc | replace "\n\n" "<br>" | replace "\n" " " | replace "|" "\\|" | replace "<br>" "\x00" | replace "<" "&lt;" | replace "\x00" "<br>" }}{{ template "validation" . }}
{{- /* Those of the type stand with the type. */ -}}
{{- $type := .Type }}{{ if and $type $type.UnderlyingType }}{{ $type = $type.UnderlyingType }}{{ end -}}
{{- $own := and $type (index $type.Markers "kubebuilder:validation:XValidation") -}}
{{- range ternary list (index .Markers "kubebuilder:validation:XValidation") (not (empty $own)) }} Refused otherwise: {{ .Message | replace "|" "\\|" | replace "<" "&lt;" }}.{{ end }}
{{- end -}}
{{- end -}}
