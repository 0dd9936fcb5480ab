package dev.baton.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;

/**
 * Who may read a range, by the partition's owner record: the metadata of the group's offset (record.py).
 *
 * <p>Kafka refuses no reader. So the record is looked at, and rows go out for a second after a look. Nothing is recorded of who
 * reads: of two attempts of a task both may, unless the earlier one was the owner's and the partition is another's now.
 */
final class KafkaCheck {
  /** Nanoseconds after which a look is old. */
  private static final long OLD = TimeUnit.SECONDS.toNanos(1);

  private final Range range;
  private final String topic;
  private final long query;
  private final Reader reader;
  private long looked;
  private boolean never = true;
  /** Without a look, as where a range has no message, nothing has said otherwise. */
  private boolean owner;

  /** <code>topic</code>: the id of the one that the range is of. */
  KafkaCheck(Range range, String topic, Reader reader) {
    this.range = range;
    this.topic = topic;
    this.query = range.planned().value().query();
    this.reader = reader;
    this.owner = !reader.uid().isEmpty();
  }

  /** Whether to look. */
  boolean old() {
    return query != 0 && (never || System.nanoTime() - looked > OLD);
  }

  /** Whether another than the owner reads, by the last look. */
  boolean lent() {
    return query != 0 && !owner;
  }

  /** Takes what was asked for at this time (System.nanoTime). Throws RefusedException. */
  void pass(OffsetAndMetadata committed, long when) throws RefusedException {
    JsonNode record = record(committed);
    if (!record.path("topic").asText(topic).equals(topic)) {
      throw refused("GONE", " is of a topic that was deleted, and another was made with its name");
    }
    long latest = record.path("query").asLong();
    if (latest > query) {
      throw refused("QUERY", " belongs to query " + latest + " now, which another driver or a later start has begun: this is " + query);
    }
    if (latest < query) throw refused("UNLOGGED", " is not to be read any more: a pod reads it alone, or the group was set back");
    owner = record.path("uid").asText().equals(reader.uid()) && record.path("epoch").asLong() == reader.epoch();
    boolean first = reader.task().attemptNumber() == 0 && reader.task().stageAttemptNumber() == 0;
    if (!owner && first && !reader.uid().isEmpty()) {
      throw refused("STALE", " was granted on: another attempt of this task reads it, as a loan");
    }
    looked = when;
    never = false;
  }

  private RefusedException refused(String code, String why) {
    return new RefusedException(code, range.named() + why);
  }

  /** Clients in C write a NUL behind it. */
  private static JsonNode record(OffsetAndMetadata committed) {
    if (committed != null) {
      try {
        JsonNode found = Group.JSON.readTree(committed.metadata().split("\0", 2)[0]);
        if (found.isObject()) return found;
      } catch (JsonProcessingException other) {
        // not Baton's
      }
    }
    return Group.JSON.createObjectNode();
  }
}
