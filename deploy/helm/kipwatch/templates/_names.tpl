{{/* Names, labels, image and security of all pods. */}}

{{- define "kipwatch.name" -}}
{{- if contains "kipwatch" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-kipwatch{{ end -}}
{{- end }}

{{/* Call with a list: the root, and the component. */}}
{{- define "kipwatch.selector" -}}
app.kubernetes.io/name: kipwatch
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "kipwatch.labels" -}}
{{ include "kipwatch.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "kipwatch.image" -}}
{{ required "set image.repository: kipwatch publishes no image (deploy/helm/README.md)" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "kipwatch.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
