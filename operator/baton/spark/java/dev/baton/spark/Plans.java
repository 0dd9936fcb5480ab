package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.connector.read.InputPartition;

/** Reads the decisions' plans. What a queue's ranges have in common goes to each executor once, and not with each task. */
final class Plans {
  private final Map<PlannedQueue, Broadcast<PlannedQueue>> sent = new HashMap<>();

  InputPartition[] ranges(JsonNode plan) {
    Map<String, Broadcast<PlannedQueue>> queues = new HashMap<>();
    plan.path("queues").properties().forEach(one -> queues.put(one.getKey(), broadcast(queue(one.getValue()))));
    sent.values().retainAll(queues.values());
    List<Range> ranges = new ArrayList<>();
    for (JsonNode range : plan.path("ranges")) {
      ranges.add(range(range, queues.get(range.path("queue").asText())));
    }
    return ranges.toArray(new InputPartition[0]);
  }

  private Broadcast<PlannedQueue> broadcast(PlannedQueue queue) {
    return sent.computeIfAbsent(queue, new JavaSparkContext(SparkContext.getOrCreate())::broadcast);
  }

  private static Range range(JsonNode range, Broadcast<PlannedQueue> planned) {
    List<String> keys = new ArrayList<>();
    range.path("keys").forEach(key -> keys.add(key.asText()));
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
        keys,
        range.path("stream").asText(),
        planned);
  }

  private static PlannedQueue queue(JsonNode queue) {
    String script = queue.path("script").asText();
    return new PlannedQueue(
        queue.path("kind").asText(), queue.path("query").asLong(), queue.path("server").toString(), script, sha1(script));
  }

  private static String sha1(String text) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-1").digest(text.getBytes(StandardCharsets.UTF_8));
      return HexFormat.of().formatHex(digest);
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
