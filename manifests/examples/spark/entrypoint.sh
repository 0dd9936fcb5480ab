#!/bin/bash
# Started by Kubernetes with the argument `driver` or `executor`, as Spark's own image is; anything else is run as it stands.
set -e
if [ "$1" = driver ]; then
  shift
  exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
fi
if [ "$1" != executor ]; then exec "$@"; fi
i=0; options=(); class_path="$SPARK_CONF_DIR:$SPARK_HOME/jars/*"
# Java takes the classes from the archive that the image was built with, as long as the class path begins as that says.
if [ -f /opt/classes/class-path ]; then
  options=("-XX:SharedArchiveFile=/opt/classes/classes.jsa"); class_path="$(</opt/classes/class-path):$class_path"
fi
while name="SPARK_JAVA_OPT_$i"; [ -n "${!name}" ]; do options+=("${!name}"); i=$((i + 1)); done
exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "$class_path" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
