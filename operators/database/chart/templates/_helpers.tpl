{{- define "database.labels" -}}
app.kubernetes.io/name: database-controller
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "database.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default "database-operator" }}
{{- else -}}
{{ required "serviceAccount.name: name the ServiceAccount that exists, or set serviceAccount.create to true" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "database.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Not empty if metrics are served. To ask the cluster who a reader is takes a right that watchNamespaces rules out. */ -}}
{{- define "database.metrics" -}}
{{- if and .Values.metrics.enabled (not (and .Values.watchNamespaces .Values.metrics.secure)) -}}
true
{{- end -}}
{{- end }}
