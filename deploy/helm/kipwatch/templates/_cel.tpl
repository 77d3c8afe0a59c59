{{/*
A value of a pod as CEL, in which a patch of an admission policy is written. Objects are of a type by their path,
such as Object.spec.containers.securityContext; resources and label-like fields are maps. Call with a list: the
value, its type, and its key.
*/}}
{{- define "kipwatch.cel" -}}
{{- $value := index . 0 }}{{ $type := index . 1 }}{{ $key := index . 2 }}
{{- if kindIs "map" $value }}
{{- $isMap := has $key (list "limits" "requests") }}
{{- $fields := list }}
{{- range $name, $field := $value }}
{{- $fields = append $fields (printf "%s: %s" (ternary ($name | quote) $name $isMap) (include "kipwatch.cel" (list $field (printf "%s.%s" $type $name) $name))) }}
{{- end }}
{{- ternary "" $type $isMap }}{ {{- join ", " $fields -}} }
{{- else if kindIs "slice" $value }}
{{- $items := list }}
{{- range $value }}
{{- $items = append $items (include "kipwatch.cel" (list . $type $key)) }}
{{- end -}}
[{{ join ", " $items }}]
{{- else if kindIs "float64" $value }}{{ int64 $value }}
{{- else }}{{ $value | toJson }}
{{- end }}
{{- end }}
