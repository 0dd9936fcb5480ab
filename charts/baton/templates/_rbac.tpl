{{/* What the operator may do in a namespace that it serves, and no more. */}}
{{- define "baton.rbac.rules" -}}
- apiGroups: [baton.dev]
  resources: [partitionedqueues]
  verbs: [get, list, watch]
# patch: the finalizer by which a group's partitions are taken back before it goes, and spec.replicas where it is absent.
- apiGroups: [baton.dev]
  resources: [consumergroups]
  verbs: [get, list, watch, patch]
- apiGroups: [baton.dev]
  resources: [partitionedqueues/status, consumergroups/status]
  verbs: [get, patch]
# The ledger names its group as its owner, and asks that the group waits for it.
- apiGroups: [baton.dev]
  resources: [consumergroups/finalizers]
  verbs: [update]
# Stands for the ledger: the admission policy asks whether a writer has this right.
- apiGroups: [baton.dev]
  resources: [consumergroups/ledger]
  verbs: [update]
# patch: an annotation that makes the kubelet refresh the mounted assignment at once, and the deletion cost of who is to go first.
# The admission policy lets nothing else of a pod be changed.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch]
# The ledger. RBAC knows names and no labels: the admission policy lets no other ConfigMap be written.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, update]
# Sessions are read; their own creation is the consumers'.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- range .Values.rbac.scaleTargets }}
- apiGroups: [{{ .apiGroup | quote }}]
  resources:
    {{- range .resources }}
    - {{ . }}/scale
    {{- end }}
  verbs: [get, patch]
{{- end }}
{{- end -}}

{{/* Who has the verb `join`, in words. */}}
{{- define "baton.rbac.joiners" -}}
{{- if and .Values.rbac.create (eq (include "baton.rbac.aggregate" .) "true") -}}
(the cluster\'s roles edit and admin have it)
{{- else if and .Values.rbac.create .Values.watchNamespaces -}}
(the Role {{ include "baton.fullname" . }}-edit of this namespace has it)
{{- else -}}
(no role of the chart has it)
{{- end -}}
{{- end -}}

{{/* What people may do who look at a namespace, and who edit it. */}}
{{- define "baton.rbac.view" -}}
# The cluster's role view has it from Kubernetes 1.35 on: the console and `baton bundle` read events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [get, list, watch]
- apiGroups: [baton.dev]
  resources: [partitionedqueues, partitionedqueues/status, consumergroups, consumergroups/status, consumergroups/scale]
  verbs: [get, list, watch]
{{- end -}}
{{- define "baton.rbac.edit" -}}
- apiGroups: [baton.dev]
  resources: [partitionedqueues, consumergroups]
  verbs: [create, update, patch, delete, deletecollection]
- apiGroups: [baton.dev]
  resources: [consumergroups/scale]
  verbs: [update, patch]
{{- end -}}
{{/* Who may edit a namespace may bring pods into its groups, and so may drivers that are given the same verb. */}}
{{- define "baton.rbac.join" -}}
- apiGroups: [baton.dev]
  resources: [consumergroups]
  verbs: [join]
{{- end -}}

{{/* true: the roles view, edit and admin of the cluster get the custom resources. */}}
{{- define "baton.rbac.aggregate" -}}
{{- if kindIs "bool" .Values.rbac.aggregate }}{{ .Values.rbac.aggregate }}{{ else }}{{ empty .Values.watchNamespaces }}{{ end -}}
{{- end -}}

{{/* A role of the operator: name, namespace (empty: the whole cluster), rules, root. */}}
{{- define "baton.rbac.bound" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}Role{{ else }}ClusterRole{{ end }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels: {{- include "baton.labels" .root | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ if .namespace }}RoleBinding{{ else }}ClusterRoleBinding{{ end }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels: {{- include "baton.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ if .namespace }}Role{{ else }}ClusterRole{{ end }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "baton.serviceAccount" .root | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end -}}
