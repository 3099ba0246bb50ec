{{/* The programs that run: what each starts with which options of Node, which keys of the Secret give it which variables, and which servers it uses. */}}
{{- define "keytally.programs" -}}
api:
  options: [--max-semi-space-size=8, --heap-growing-percent=50]
  entry: apps/api/main.ts
  port: 8080
  secrets: { DATABASE_URL: api_database_url, REDIS_URL: redis_api_url, CLICKHOUSE_URL: clickhouse_api_url, MASTER_KEY: master_key }
  servers: [postgres, redis, clickhouse]
verify:
  options: [--heap-growing-percent=100]
  entry: apps/verify/main.ts
  port: 8081
  secrets: { REDIS_URL: redis_verify_url }
  servers: [redis]
{{- if eq .Values.bus "kafka" }}
relay:
  options: [--max-semi-space-size=8]
  entry: apps/relay/main.ts
  secrets: { REDIS_URL: redis_relay_url }
  servers: [redis, kafka]
{{- end }}
consumer:
  options: [--max-semi-space-size=8]
  entry: apps/consumer/main.ts
  secrets: { DATABASE_URL: consumer_database_url, REDIS_URL: redis_consumer_url, CLICKHOUSE_URL: clickhouse_consumer_url }
  servers: [postgres, redis, clickhouse{{ if eq .Values.bus "kafka" }}, kafka{{ end }}]
webhooks:
  options: [--max-semi-space-size=8]
  entry: apps/webhooks/main.ts
  secrets: { DATABASE_URL: webhooks_database_url, MASTER_KEY: master_key }
  servers: [postgres]
{{- end }}

{{- define "keytally.name" -}}
{{- if contains "keytally" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-keytally" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "keytally.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "keytally.selector" -}}
app.kubernetes.io/name: keytally
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "keytally.labels" -}}
{{ include "keytally.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "keytally.podSecurity" -}}
runAsNonRoot: true
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "keytally.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: { drop: [ALL] }
{{- end }}

{{/* A value of a variable as text. Helm reads whole numbers as floats, and would write 100000000 as 1e+08. */}}
{{- define "keytally.text" -}}
{{- if kindIs "float64" . }}{{ if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* What every container of our image has: image and rights. */}}
{{- define "keytally.container" -}}
image: {{ include "keytally.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
workingDir: /app
securityContext:
  {{- include "keytally.containerSecurity" . | nindent 2 }}
{{- end }}

{{/* The variables of `secrets`, each from a file. With a command for the master key, the Secret's is not used. */}}
{{- define "keytally.secretVariables" -}}
{{- $root := .root }}
{{- range $variable, $key := .secrets }}
{{- if and (eq $variable "MASTER_KEY") $root.Values.masterKey.command }}
- { name: MASTER_KEY_COMMAND, value: {{ $root.Values.masterKey.command | quote }} }
{{- with $root.Values.masterKey.previousCommand }}
- { name: MASTER_KEY_PREVIOUS_COMMAND, value: {{ . | quote }} }
{{- end }}
{{- range $name, $value := $root.Values.masterKey.vault }}
- { name: {{ $name }}, value: {{ include "keytally.text" $value | quote }} }
{{- end }}
{{- if $root.Values.masterKey.vault }}
- { name: VAULT_TOKEN_FILE, value: /run/secrets/keytally/vault_token }
{{- end }}
{{- else }}
- { name: {{ $variable }}_FILE, value: /run/secrets/keytally/{{ $key }} }
{{- end }}
{{- end }}
{{- end }}

{{/* The volume with those keys of the Secret that a program reads. */}}
{{- define "keytally.secretVolume" -}}
{{- $root := .root }}
- name: secrets
  secret:
    secretName: {{ $root.Values.secretName }}
    defaultMode: 0440
    items:
      {{- range $variable, $key := .secrets }}
      {{- if and (eq $variable "MASTER_KEY") $root.Values.masterKey.command }}
      {{- if $root.Values.masterKey.vault }}
      - { key: vault_token, path: vault_token }
      {{- end }}
      {{- else }}
      - { key: {{ $key }}, path: {{ $key }} }
      {{- end }}
      {{- end }}
{{- end }}

{{/* How relay and consumer reach Kafka. */}}
{{- define "keytally.kafkaVariables" -}}
{{- $kafka := .root.Values.servers.kafka }}
{{- $trial := .root.Values.trial.enabled }}
{{- if and (not $trial) (not $kafka.brokers) }}{{ fail "bus: kafka needs servers.kafka.brokers, such as [kafka-1:9092]; or set bus: redis" }}{{ end }}
- { name: KAFKA_BROKERS, value: {{ ternary "kafka:9092" (join "," $kafka.brokers) $trial | quote }} }
{{- if or $trial $kafka.saslMechanism }}
- { name: KAFKA_SASL_MECHANISM, value: {{ ternary "plain" $kafka.saslMechanism $trial }} }
- { name: KAFKA_SASL_USERNAME, value: {{ ternary (printf "keytally_%s" .name) (get $kafka (printf "%sUsername" .name)) $trial }} }
{{- end }}
{{- if and $kafka.tls (not $trial) }}
- { name: KAFKA_TLS, value: 'true' }
{{- end }}
{{- range $name, $value := $kafka.config }}
- { name: {{ $name }}, value: {{ include "keytally.text" $value | quote }} }
{{- end }}
{{- end }}

{{/* The servers for trying: ports, where their data and scratch files are, and the files that they read. */}}
{{- define "keytally.trialServers" -}}
postgres:
  ports: [5432]
  data: /var/lib/postgresql
  scratch: { tmp: /tmp, run: /var/run/postgresql, shm: /dev/shm }
  memory: 2Gi
redis:
  ports: [6379]
  data: /data
  scratch: { tmp: /tmp }
  files: { redis.conf: /etc/keytally/redis.conf, users.conf: /etc/keytally/users.conf }
  memory: 4Gi
clickhouse:
  ports: [8123]
  data: /var/lib/clickhouse
  scratch: { tmp: /tmp }
  files:
    clickhouse-config.xml: /etc/clickhouse-server/config.d/keytally.xml
    clickhouse-users.xml: /etc/clickhouse-server/users.d/keytally.xml
  memory: 4Gi
{{- if eq .Values.bus "kafka" }}
kafka:
  ports: [9092, 9093]
  data: /var/lib/kafka/data
  scratch: { tmp: /tmp }
  files: { kafka-server.properties: /etc/keytally/server.properties, kafka-log4j2.yaml: /etc/keytally/log4j2.yaml }
  memory: 1536Mi
{{- end }}
{{- end }}
