package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * Parses the decisions' plans. Broadcasts what a queue's ranges share, so that each executor gets it once and not with each task.
 */
final class Plans {
  private final Map<Range.Queue, Broadcast<Range.Queue>> sent = new HashMap<>();

  InputPartition[] ranges(JsonNode plan) {
    Map<String, Broadcast<Range.Queue>> queues = new HashMap<>();
    plan.path("queues").properties().forEach(one -> queues.put(one.getKey(), broadcast(queue(one.getValue()))));
    sent.values().retainAll(queues.values());
    Map<Integer, List<Range>> tasks = new TreeMap<>();
    for (JsonNode range : plan.path("ranges")) {
      int task = range.path("task").asInt(tasks.size());
      Range one = range(range, queues.get(range.path("queue").asText()));
      tasks.computeIfAbsent(task, nth -> new ArrayList<>()).add(one);
    }
    return tasks.values().stream().map(TaskReader.Task::new).toArray(InputPartition[]::new);
  }

  private Broadcast<Range.Queue> broadcast(Range.Queue queue) {
    return sent.computeIfAbsent(queue, new JavaSparkContext(SparkContext.getOrCreate())::broadcast);
  }

  private static Range range(JsonNode range, Broadcast<Range.Queue> planned) {
    return new Range(
        range.path("queue").asText(),
        range.path("partition").asInt(),
        range.path("start").asLong(),
        range.path("end").asLong(),
        range.path("uid").asText(),
        range.path("epoch").asLong(),
        range.path("executor").asText(),
        range.path("location").asText(),
        range.path("redeliveredTo").asLong(),
        planned);
  }

  private static Range.Queue queue(JsonNode queue) {
    List<String> keys = new ArrayList<>();
    queue.path("keys").forEach(key -> keys.add(key.asText()));
    return new Range.Queue(
        queue.path("kind").asText(),
        queue.path("query").asLong(),
        queue.path("server").toString(),
        queue.path("script").asText(),
        queue.path("sha").asText(),
        keys,
        queue.path("stream").asText());
  }
}
