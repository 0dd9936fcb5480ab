package dev.baton.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.commons.pool2.BaseKeyedPooledObjectFactory;
import org.apache.commons.pool2.PooledObject;
import org.apache.commons.pool2.impl.DefaultPooledObject;
import org.apache.commons.pool2.impl.GenericKeyedObjectPool;
import org.apache.commons.pool2.impl.GenericKeyedObjectPoolConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.scram.ScramLoginModule;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * This process' consumers of one topic, as long as it is that and none that was made in its place: each is kept for the next range of
 * its partition, and closed a minute after the last.
 */
final class KafkaConsumers implements Patience.Server {
  /** A position that no range begins at. */
  static final long NOWHERE = -1;
  private static final Duration KEPT = Duration.ofMinutes(1);
  /** Each has a page that was fetched ahead. */
  private static final int MOST_FREE = 32;
  private static final int MOST_BYTES = 4 << 20;
  private static final int MOST_MESSAGES = 5000;
  /** Of all topics. */
  private static final GenericKeyedObjectPool<Key, One> POOL = pool();

  private final String server;
  private final JsonNode where;

  KafkaConsumers(String server) {
    this.server = server;
    try {
      this.where = Group.JSON.readTree(server);
    } catch (JsonProcessingException malformed) {
      throw new IllegalArgumentException("A topic's server is no JSON"); // it has a password: nothing of it is told
    }
  }

  /** One that reads the partition from this position on, for the caller alone. Throws KafkaException. */
  One take(int partition, long position) {
    try {
      One found = POOL.borrowObject(new Key(server, partition));
      found.seek(position);
      return found;
    } catch (RuntimeException failed) {
      throw failed;
    } catch (Exception impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** The caller has read it up to this position. */
  void giveBack(One one, long position) {
    one.position = position;
    POOL.returnObject(new Key(server, one.partition.partition()), one);
    if (POOL.getNumIdle() > MOST_FREE) POOL.clearOldest();
  }

  /** The id that the topic's brokers know it by. */
  String topicId() {
    return where.path("topicId").asText();
  }

  @Override
  public String name() {
    return "Kafka";
  }

  @Override
  public String place() {
    return where.path("servers").asText();
  }

  @Override
  public boolean mine(RuntimeException failed) {
    return failed instanceof KafkaException;
  }

  @Override
  public boolean passes(RuntimeException failed) {
    return failed instanceof RetriableException || failed instanceof InterruptException || unresolved(failed);
  }

  /** A name server is away as a broker is; a client that is just being made takes that for a wrong setting. */
  private static boolean unresolved(Throwable failed) {
    for (Throwable why = failed; why != null; why = why.getCause()) {
      if (why instanceof ConfigException && String.valueOf(why.getMessage()).contains("No resolvable bootstrap")) return true;
    }
    return false;
  }

  /** Of a partition of the server's topic. */
  private record Key(String server, int partition) {}

  private static GenericKeyedObjectPool<Key, One> pool() {
    GenericKeyedObjectPoolConfig<One> config = new GenericKeyedObjectPoolConfig<>();
    config.setMaxTotalPerKey(-1);
    config.setMinEvictableIdleDuration(KEPT);
    config.setTimeBetweenEvictionRuns(KEPT.dividedBy(2));
    config.setNumTestsPerEvictionRun(-1);
    config.setJmxEnabled(false);
    return new GenericKeyedObjectPool<>(
        new BaseKeyedPooledObjectFactory<Key, One>() {
          @Override
          public One create(Key key) {
            return new One(new KafkaConsumers(key.server), key.partition);
          }

          @Override
          public PooledObject<One> wrap(One one) {
            return new DefaultPooledObject<>(one);
          }

          @Override
          public void destroyObject(Key key, PooledObject<One> one) {
            one.getObject().consumer.close(Duration.ZERO);
          }
        },
        config);
  }

  private Map<String, Object> settings() {
    Map<String, Object> made = new HashMap<>();
    made.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, where.path("servers").asText());
    made.put("security.protocol", where.path("protocol").asText());
    made.put(ConsumerConfig.GROUP_ID_CONFIG, where.path("group").asText());
    made.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    made.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    made.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    made.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none"); // a jump is an error, and no silence
    made.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    made.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
    made.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, MOST_BYTES);
    made.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, MOST_MESSAGES);
    made.put("enable.metrics.push", false);
    made.put("metric.reporters", "");
    if (where.path("user").isTextual()) {
      String mechanism = where.path("mechanism").asText();
      Class<?> module = mechanism.equals("PLAIN") ? PlainLoginModule.class : ScramLoginModule.class;
      made.put(SaslConfigs.SASL_MECHANISM, mechanism);
      made.put(
          SaslConfigs.SASL_JAAS_CONFIG,
          module.getName() + " required username=" + quoted("user") + " password=" + quoted("password") + ";");
    }
    if (given("ca")) {
      made.put(SslConfigs.SSL_TRUSTSTORE_TYPE_CONFIG, "PEM");
      made.put(SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG, where.path("ca").asText());
    }
    if (given("certificate")) {
      made.put(SslConfigs.SSL_KEYSTORE_TYPE_CONFIG, "PEM");
      made.put(SslConfigs.SSL_KEYSTORE_CERTIFICATE_CHAIN_CONFIG, where.path("certificate").asText());
      made.put(SslConfigs.SSL_KEYSTORE_KEY_CONFIG, where.path("key").asText());
    }
    return made;
  }

  private boolean given(String name) {
    return !where.path(name).asText("").isEmpty();
  }

  private String quoted(String name) {
    return '"' + where.path(name).asText().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  /** One consumer, of one partition, for one thread at a time. */
  static final class One {
    private final TopicPartition partition;
    private final KafkaConsumer<byte[], byte[]> consumer;
    /** Fetched, and beyond the end of the range before. */
    private List<ConsumerRecord<byte[], byte[]>> left = List.of();
    private long position = NOWHERE;

    private One(KafkaConsumers of, int partition) {
      this.partition = new TopicPartition(of.where.path("topic").asText(), partition);
      this.consumer = new KafkaConsumer<>(of.settings());
      consumer.assign(List.of(this.partition));
    }

    /** No message stands between what was read and it. */
    long position() {
      return position;
    }

    /** The next messages before this end; perhaps none. */
    List<ConsumerRecord<byte[], byte[]>> poll(Duration within, long end) {
      List<ConsumerRecord<byte[], byte[]>> found = left.isEmpty() ? consumer.poll(within).records(partition) : left;
      int before = found.size();
      while (before > 0 && found.get(before - 1).offset() >= end) before--;
      left = new ArrayList<>(found.subList(before, found.size()));
      if (!left.isEmpty()) position = end;
      else position = Math.max(before > 0 ? found.get(before - 1).offset() + 1 : position, passed());
      return new ArrayList<>(found.subList(0, before));
    }

    /** Over marks of transactions, and what compaction has left out. */
    private long passed() {
      try {
        return consumer.position(partition, Duration.ZERO);
      } catch (RetriableException unknown) { // what was fetched is handed out all the same
        return NOWHERE;
      }
    }

    /** The group's. */
    OffsetAndMetadata committed(Duration within) {
      return consumer.committed(Set.of(partition), within).get(partition);
    }

    private void seek(long to) {
      if (position == to) return;
      left = List.of();
      consumer.seek(partition, to);
      position = to;
    }
  }
}
