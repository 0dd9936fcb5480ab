{{/* Of what a hook of helm makes: root, component. */}}
{{- define "baton.hookLabels" -}}
app.kubernetes.io/name: {{ include "baton.name" .root | trunc 52 | trimSuffix "-" }}-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: baton
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- include "baton.commonLabels" .root }}
{{- end -}}

{{/* A pod of the operator's image that runs a script of the chart: root, script, args, account (empty: without any right). */}}
{{- define "baton.hookPod" -}}
{{- with .root -}}
restartPolicy: Never
enableServiceLinks: false
{{- with $.account }}
serviceAccountName: {{ . | quote }}
{{- else }}
automountServiceAccountToken: false
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with .Values.podSecurityContext }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: {{ $.name | quote }}
    image: {{ include "baton.image" . | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [python3, -c]
    args:
      - {{ .Files.Get $.script | quote }}
      {{- range $.args }}
      - {{ . | quote }}
      {{- end }}
    resources:
      requests: {cpu: 10m, memory: 32Mi}
      limits: {memory: 128Mi}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
    {{- with .Values.imageVolumeMounts }}
    volumeMounts: {{- toYaml . | nindent 6 }}
    {{- end }}
{{- with .Values.imageVolumes }}
volumes: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "baton.scheduling" (dict "root" . "selector" "") | trim }}
{{ . }}
{{- end }}
{{- end -}}
{{- end -}}
