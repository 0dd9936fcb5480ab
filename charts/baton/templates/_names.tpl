{{- define "baton.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 55 characters: a Service can have 63, and the longest of its endings are -metrics and -console. */}}
{{- define "baton.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains (include "baton.name" .) .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "baton.name" .) | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "baton.serviceAccount" -}}
{{- if or .Values.serviceAccount.name .Values.serviceAccount.create -}}
{{- default (include "baton.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- fail "serviceAccount.name: name the account that the operator is to be, or leave serviceAccount.create true. The account `default` would give its rights to all pods of the namespace." -}}
{{- end -}}
{{- end -}}

{{- define "baton.image" -}}
{{- $digest := .Values.image.digest -}}
{{- .Values.image.repository -}}:{{- default .Chart.AppVersion .Values.image.tag -}}{{- with $digest -}}@{{- . -}}{{- end -}}
{{- end -}}

{{- define "baton.selector" -}}
app.kubernetes.io/name: {{ include "baton.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* part-of and component are the same whatever the values say: by them baton doctor and the guides find the operator. */}}
{{- define "baton.labels" -}}
{{ include "baton.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: baton
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- include "baton.commonLabels" . }}
{{- end -}}

{{- define "baton.consoleSelector" -}}
app.kubernetes.io/name: {{ include "baton.name" . | trunc 55 | trimSuffix "-" }}-console
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "baton.consoleLabels" -}}
{{ include "baton.consoleSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: console
app.kubernetes.io/part-of: baton
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- include "baton.commonLabels" . }}
{{- end -}}

{{/* commonLabels, each on a line, but for those that the chart sets itself. */}}
{{- define "baton.commonLabels" -}}
{{- include "baton.ownLabels" (dict "name" "commonLabels" "labels" .Values.commonLabels) }}
{{- range $label, $value := .Values.commonLabels }}
{{ $label }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Fails if `labels`, the value `name`, has a label that the chart sets itself. */}}
{{- define "baton.ownLabels" -}}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- if hasKey $.labels $label }}
{{- fail (printf "%s: the chart sets %s itself, and selects its pods by such labels. Take it out." $.name $label) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where pods run, and which go first: of the operator, the console and hooks. A spread constraint without a labelSelector counts
the pods that `selector` (empty for hooks, which are single pods) selects. */}}
{{- define "baton.scheduling" -}}
{{- $selector := .selector -}}
{{- with .root -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and $selector .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range .Values.topologySpreadConstraints }}
  - {{- set (deepCopy .) "labelSelector" (default (dict "matchLabels" (fromYaml $selector)) .labelSelector) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* podAnnotations. The cluster autoscaler would leave a node alone that has a pod with an emptyDir: nothing in /tmp is worth it. */}}
{{- define "baton.podAnnotations" -}}
{{- toYaml (merge dict (default dict .Values.podAnnotations) (dict "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes" "tmp")) }}
{{- end -}}

{{/* podLabels, without those that commonLabels or the chart itself set. */}}
{{- define "baton.podLabels" -}}
{{- include "baton.ownLabels" (dict "name" "podLabels" "labels" .Values.podLabels) }}
{{- range $label, $value := .Values.podLabels }}
{{- if not (hasKey $.Values.commonLabels $label) }}
{{ $label }}: {{ $value | quote }}
{{- end }}
{{- end }}
{{- end -}}
