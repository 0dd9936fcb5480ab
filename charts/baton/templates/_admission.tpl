{{/* on: the policies are installed. Kubernetes has them from 1.30 on. */}}
{{- define "baton.admissionPolicy" -}}
{{- if and .Values.admissionPolicy.enabled (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}on{{- else -}}off{{- end -}}
{{- end -}}

{{/* Kubernetes' own controllers: they make the pods of Deployments, and clear up. */}}
{{- define "baton.admission.notAController" -}}
- name: not-a-controller-of-kubernetes
  expression: >-
    !request.userInfo.username.startsWith('system:serviceaccount:kube-system:')
    && request.userInfo.username != 'system:kube-controller-manager'
{{- end -}}

{{/* The operator itself. */}}
{{- define "baton.admission.operator" -}}
- name: the-operator
  expression: request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "baton.serviceAccount" . }}'
{{- end -}}

{{/* The operator writes nothing in the namespaces of Kubernetes itself. */}}
{{- define "baton.admission.notOfKubernetes" -}}
- expression: "!(request.namespace in ['kube-system', 'kube-public', 'kube-node-lease'])"
  reason: Forbidden
  message: the operator writes nothing in the namespaces of Kubernetes itself
{{- end -}}

{{/* A policy's name: how it is bound. */}}
{{- define "baton.admission.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name | quote }}
  labels: {{- include "baton.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name | quote }}
  validationActions: [Deny]
  {{- with .root.Values.watchNamespaces }}
  matchResources:
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values: {{- toYaml . | nindent 12 }}
  {{- end }}
{{- end -}}
