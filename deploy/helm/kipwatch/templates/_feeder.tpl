{{/*
What all pods have, and the feeder's container: in the DaemonSet and injected into brokers' pods. It is root without any capability but
NET_RAW: Kubernetes gives added capabilities to no other user.
*/}}
{{- define "kipwatch.feeder" -}}
name: kipwatch-feeder
image: {{ .Values.feeder.image | default (include "kipwatch.image" .) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  - feed
  - --config=/etc/kipwatch/kipwatch.toml
  - --interface={{ .Values.feeder.interface }}
  - --feeder-metrics-address=0.0.0.0:9107
  {{- if .Values.feeder.kubernetes }}
  - --kubernetes=true
  {{- end }}
ports:
  - name: kw-feeder
    containerPort: 9107
    protocol: TCP
livenessProbe:
  httpGet: {path: /healthz, port: 9107}
  # In a new pod a feeder compiles for a minute on a processor unlike that of the image's builder, longer where it gets
  # little of a core.
  initialDelaySeconds: 300
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 3
resources:
  {{- toYaml .Values.feeder.resources | nindent 2 }}
securityContext:
  runAsUser: 0
  runAsGroup: 0
  runAsNonRoot: false
  privileged: false
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
    add: [NET_RAW]
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
  {{- include "kipwatch.mounts" . | nindent 2 }}
{{- end }}

{{- define "kipwatch.mounts" -}}
- name: kipwatch-configuration
  mountPath: /etc/kipwatch
  readOnly: true
{{- if .Values.secret }}
- name: kipwatch-secret
  mountPath: /etc/kipwatch-secret
  readOnly: true
{{- end }}
- name: kipwatch-scratch
  mountPath: /tmp
{{- end }}

{{/* The volumes of every pod of kipwatch; call with a list: the root, and the size of the scratch volume. */}}
{{- define "kipwatch.volumes" -}}
- name: kipwatch-configuration
  configMap:
    name: {{ include "kipwatch.name" (index . 0) }}
    # A broker's pod never waits for it.
    optional: true
{{- if (index . 0).Values.secret }}
- name: kipwatch-secret
  secret:
    secretName: {{ (index . 0).Values.secret }}
    optional: true
    defaultMode: 288
{{- end }}
- name: kipwatch-scratch
  emptyDir:
    sizeLimit: {{ index . 1 }}
{{- end }}
