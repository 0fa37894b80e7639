{{- define "<<.Name>>.labels" -}}
<<yaml .Selector 0>>
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "<<.Name>>.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default "<<.Account>>" }}
{{- else -}}
{{ required "serviceAccount.name: name the ServiceAccount that exists, or set serviceAccount.create to true" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "<<.Name>>.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

<<if .Namespaced ->>
{{- /* Not empty if metrics are served. To ask the cluster who a reader is takes a right that watchNamespaces rules out. */ -}}
<<- else ->>
{{- /* Not empty if metrics are served. */ -}}
<<- end>>
{{- define "<<.Name>>.metrics" -}}
{{- if <<if .Namespaced>>and .Values.metrics.enabled (not (and .Values.watchNamespaces .Values.metrics.secure))<<else>>.Values.metrics.enabled<<end>> -}}
true
{{- end -}}
{{- end }}
