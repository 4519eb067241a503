{{- define "gemmd.image" -}}
{{ .Values.image.repository }}:{{ with .Values.image.version }}{{ . }}-{{ end }}{{ .Values.backend }}
{{- end }}

{{- define "gemmd.resources" -}}
{{- $resources := index .Values.backends .Values.backend "resources" | deepCopy -}}
{{- if eq .Values.backend "cuda" -}}
{{- if .Values.dra -}}
{{- $_ := set $resources "claims" (list (dict "name" "gpu")) -}}
{{- else -}}
{{- $_ := set $resources.requests "nvidia.com/gpu" "1" -}}
{{- $_ := set $resources.limits "nvidia.com/gpu" "1" -}}
{{- end -}}
{{- end -}}
{{ toYaml $resources }}
{{- end }}
