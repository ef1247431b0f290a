{{/* Names */}}
{{- define "clapboard.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Short enough that a component's name still fits behind it. */}}
{{- define "clapboard.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "clapboard.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "clapboard.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "clapboard.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "clapboard.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Labels: dict "root" $ "component" NAME ["worker" NAME] */}}
{{- define "clapboard.selectorLabels" -}}
app.kubernetes.io/name: {{ include "clapboard.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .worker }}
clapboard/worker: {{ . }}
{{- end }}
{{- end }}

{{- define "clapboard.labels" -}}
{{ include "clapboard.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: clapboard
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of an object: dict "root" $ "component" NAME "name" SUFFIX ["worker" NAME] ["annotations" MAP] ["labels" MAP] */}}
{{- define "clapboard.metadata" -}}
name: {{ include "clapboard.fullname" .root }}{{ with .name }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "clapboard.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image: dict "root" $ "image" VALUES */}}
{{- define "clapboard.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end }}

{{/* What a worker entry says, over what all of them have: dict "root" $ "name" NAME "entry" VALUES */}}
{{- define "clapboard.worker" -}}
{{- $worker := mergeOverwrite (deepCopy .root.Values.workerDefaults) (deepCopy (default (dict) .entry)) -}}
{{- $partition := default .name $worker.partition -}}
{{- if not (has $partition (list "fl2va" "ref2va")) -}}
{{- fail (printf "workers.%s.partition must be fl2va or ref2va, not %q" .name $partition) -}}
{{- end -}}
{{- $_ := set $worker "partition" $partition -}}
{{- $_ := set $worker "model" (include "clapboard.model" (dict "what" (printf "workers.%s.model" .name) "own" $worker.model "shared" .root.Values.model) | fromYaml) -}}
{{- $grace := add $worker.drainTimeoutSeconds $worker.uploadDeadlineSeconds $worker.slackSeconds -}}
{{- if eq $worker.drain "finish" -}}
{{- $grace = add $grace $worker.jobTimeoutSeconds -}}
{{- end -}}
{{- $_ := set $worker "grace" $grace -}}
{{- toYaml $worker -}}
{{- end }}

{{/* Where the weights are: the worker's own place if it names one, or else that of all. */}}
{{- define "clapboard.model" -}}
{{- $own := dict "hostPath" .own.hostPath "existingClaim" .own.existingClaim "image" .own.image.reference -}}
{{- $model := .shared -}}
{{- if or .own.hostPath .own.existingClaim .own.image.reference -}}
{{- $model = .own -}}
{{- end -}}
{{- $named := list -}}
{{- range list $model.hostPath $model.existingClaim $model.image.reference -}}
{{- if . }}{{ $named = append $named . }}{{ end -}}
{{- end -}}
{{- if ne (len $named) 1 -}}
{{- fail (printf "%s or model has to name one of hostPath, existingClaim and image.reference; %d are named" .what (len $named)) -}}
{{- end -}}
{{- toYaml $model -}}
{{- end }}

{{/* The volume and the mount of weights: a model */}}
{{- define "clapboard.modelVolume" -}}
name: model
{{- if .hostPath }}
hostPath:
  path: {{ .hostPath }}
  type: Directory
{{- else if .existingClaim }}
persistentVolumeClaim:
  claimName: {{ .existingClaim }}
  readOnly: true
{{- else }}
image:
  reference: {{ .image.reference }}
  pullPolicy: {{ .image.pullPolicy }}
{{- end }}
{{- end }}

{{- define "clapboard.modelMount" -}}
name: model
mountPath: /model
readOnly: true
{{- with .subPath }}
subPath: {{ . }}
{{- end }}
{{- end }}

{{/* Secrets come as files, whose paths the environment names. Nothing of them is in the chart's objects. */}}
{{- define "clapboard.secretVolume" -}}
name: secrets
projected:
  defaultMode: 0440
  sources:
    - secret:
        name: {{ .Values.database.existingSecret }}
        items:
          - {key: {{ .Values.database.key }}, path: database-url}
    {{- if not .databaseOnly }}
    - secret:
        name: {{ .Values.redis.existingSecret }}
        items:
          - {key: {{ .Values.redis.key }}, path: redis-url}
    {{- with .Values.s3.existingSecret }}
    - secret:
        name: {{ . }}
        items:
          - {key: {{ $.Values.s3.secretAccessKeyKey }}, path: s3-secret-access-key}
    {{- end }}
    {{- end }}
{{- end }}

{{- define "clapboard.secretMount" -}}
name: secrets
mountPath: /etc/clapboard/secrets
readOnly: true
{{- end }}

{{- define "clapboard.databaseEnv" -}}
- name: DATABASE_URL_FILE
  value: /etc/clapboard/secrets/database-url
{{- end }}

{{- define "clapboard.serverEnv" -}}
{{ include "clapboard.databaseEnv" . }}
- name: REDIS_URL_FILE
  value: /etc/clapboard/secrets/redis-url
{{- with .Values.s3.existingSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.s3.accessKeyIdKey }}
- name: AWS_SECRET_ACCESS_KEY_FILE
  value: /etc/clapboard/secrets/s3-secret-access-key
{{- end }}
{{- end }}

{{- define "clapboard.envFrom" -}}
- configMapRef:
    name: {{ include "clapboard.fullname" . }}
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What the head of every pod says */}}
{{- define "clapboard.podHead" -}}
serviceAccountName: {{ include "clapboard.serviceAccountName" . }}
automountServiceAccountToken: {{ .Values.serviceAccount.automount }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{/* Where a pod runs: a component's values */}}
{{- define "clapboard.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $ $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Pods start anew when what they have in common changes; that of secrets is not seen. */}}
{{- define "clapboard.podMetadata" -}}
labels:
  {{- include "clapboard.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/part-of: clapboard
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .partition }}
  clapboard/partition: {{ . }}
  {{- end }}
  {{- with .podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ include (print .root.Template.BasePath "/configmap.yaml") .root | sha256sum }}
  {{- with .podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* dict "path" PATH "port" PORT "probe" VALUES */}}
{{- define "clapboard.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
periodSeconds: {{ .probe.periodSeconds }}
timeoutSeconds: {{ .probe.timeoutSeconds }}
failureThreshold: {{ .probe.failureThreshold }}
{{- end }}

{{- define "clapboard.migrateContainer" -}}
name: migrate
image: {{ include "clapboard.image" (dict "root" . "image" .Values.image) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [migrate]
env:
  {{- include "clapboard.databaseEnv" . | nindent 2 }}
  - name: CLAPBOARD_LOG_FORMAT
    value: {{ .Values.log.format }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.migrations.resources | nindent 2 }}
volumeMounts:
  - {{ include "clapboard.secretMount" . | nindent 4 | trim }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
