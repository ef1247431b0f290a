{{/* What a schema cannot say, each as a sentence. */}}
{{- define "clapboard.checks" -}}
{{- if not .Values.database.existingSecret }}{{ fail "database.existingSecret has to name the secret that holds the database's URL" }}{{ end -}}
{{- if not .Values.redis.existingSecret }}{{ fail "redis.existingSecret has to name the secret that holds the URL of Redis" }}{{ end -}}
{{- if not .Values.s3.bucket }}{{ fail "s3.bucket has to name the bucket" }}{{ end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}{{ fail "httpRoute.parentRefs has to name a gateway" }}{{ end -}}
{{- end }}
