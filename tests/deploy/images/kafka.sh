#!/bin/sh
# The three commands of Kafka that docker-compose.yml calls.
set -eu
java() { exec /usr/bin/java ${KAFKA_HEAP_OPTS:-} -XX:+ExitOnOutOfMemoryError -cp '/opt/kafka/libs/*' "$@"; }
case $(basename "$0") in
kafka-storage.sh) java kafka.tools.StorageTool "$@" ;;
kafka-server-start.sh) java kafka.Kafka "$@" ;;
kafka-topics.sh) exec node /opt/kafka/topics.cjs "$@" ;;
esac
