package dev.baton.spark;

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
 * This process's consumers of one topic, identified by its id, so that a recreated topic has others. A consumer is kept for the
 * next range of its partition, and closed a minute after the last range.
 */
final class KafkaConsumers implements ServerRetries.Server {
  /** A position at which no range begins. */
  static final long NOWHERE = -1;
  private static final Duration KEPT = Duration.ofMinutes(1);
  /** Most idle consumers. Each holds a page that it has fetched ahead. */
  private static final int MOST_FREE = 32;
  private static final int MOST_BYTES = 4 << 20;
  private static final int MOST_MESSAGES = 5000;
  /** The consumers of all topics. */
  private static final GenericKeyedObjectPool<Key, PartitionConsumer> POOL = pool();

  private final String server;
  private final JsonNode config;

  KafkaConsumers(String server) {
    this.server = server;
    this.config = Group.server(server);
  }

  /** Takes a consumer of the partition, at this position, for the caller's exclusive use. Throws KafkaException. */
  PartitionConsumer take(int partition, long position) {
    try {
      PartitionConsumer found = POOL.borrowObject(new Key(server, partition));
      found.seek(position);
      return found;
    } catch (RuntimeException failed) {
      throw failed;
    } catch (Exception impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Gives back a consumer, which has read up to this position. */
  void giveBack(PartitionConsumer one, long position) {
    one.position = position;
    POOL.returnObject(new Key(server, one.partition.partition()), one);
    if (POOL.getNumIdle() > MOST_FREE) POOL.clearOldest();
  }

  /** The brokers' id of the topic. */
  String topicId() {
    return config.path("topicId").asText();
  }

  @Override
  public String name() {
    return "Kafka";
  }

  @Override
  public String address() {
    return config.path("servers").asText();
  }

  @Override
  public boolean isServerError(RuntimeException failed) {
    return failed instanceof KafkaException;
  }

  @Override
  public boolean isTemporary(RuntimeException failed) {
    return failed instanceof RetriableException || failed instanceof InterruptException || unresolved(failed);
  }

  /** Whether the brokers' names do not resolve. A new client reports that as a wrong setting, but it may be temporary. */
  private static boolean unresolved(Throwable failed) {
    for (Throwable why = failed; why != null; why = why.getCause()) {
      if (why instanceof ConfigException && String.valueOf(why.getMessage()).contains("No resolvable bootstrap")) return true;
    }
    return false;
  }

  /** A partition of the server's topic. */
  private record Key(String server, int partition) {}

  private static GenericKeyedObjectPool<Key, PartitionConsumer> pool() {
    GenericKeyedObjectPoolConfig<PartitionConsumer> config = new GenericKeyedObjectPoolConfig<>();
    config.setMaxTotalPerKey(-1);
    config.setMinEvictableIdleDuration(KEPT);
    config.setTimeBetweenEvictionRuns(KEPT.dividedBy(2));
    config.setNumTestsPerEvictionRun(-1);
    config.setJmxEnabled(false);
    return new GenericKeyedObjectPool<>(
        new BaseKeyedPooledObjectFactory<Key, PartitionConsumer>() {
          @Override
          public PartitionConsumer create(Key key) {
            return new PartitionConsumer(new KafkaConsumers(key.server), key.partition);
          }

          @Override
          public PooledObject<PartitionConsumer> wrap(PartitionConsumer one) {
            return new DefaultPooledObject<>(one);
          }

          @Override
          public void destroyObject(Key key, PooledObject<PartitionConsumer> one) {
            one.getObject().consumer.close(Duration.ZERO);
          }
        },
        config);
  }

  private Map<String, Object> settings() {
    Map<String, Object> made = new HashMap<>();
    made.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, config.path("servers").asText());
    made.put("security.protocol", config.path("protocol").asText());
    made.put(ConsumerConfig.GROUP_ID_CONFIG, config.path("group").asText());
    made.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    made.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
    made.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    made.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none"); // a lost position is an error; never jump silently
    made.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
    made.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
    made.put(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, MOST_BYTES);
    made.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, MOST_MESSAGES);
    made.put("enable.metrics.push", false);
    made.put("metric.reporters", "");
    if (config.path("user").isTextual()) {
      String mechanism = config.path("mechanism").asText();
      Class<?> module = mechanism.equals("PLAIN") ? PlainLoginModule.class : ScramLoginModule.class;
      made.put(SaslConfigs.SASL_MECHANISM, mechanism);
      made.put(
          SaslConfigs.SASL_JAAS_CONFIG,
          module.getName() + " required username=" + quoted("user") + " password=" + quoted("password") + ";");
    }
    if (given("ca")) {
      made.put(SslConfigs.SSL_TRUSTSTORE_TYPE_CONFIG, "PEM");
      made.put(SslConfigs.SSL_TRUSTSTORE_CERTIFICATES_CONFIG, config.path("ca").asText());
    }
    if (given("certificate")) {
      made.put(SslConfigs.SSL_KEYSTORE_TYPE_CONFIG, "PEM");
      made.put(SslConfigs.SSL_KEYSTORE_CERTIFICATE_CHAIN_CONFIG, config.path("certificate").asText());
      made.put(SslConfigs.SSL_KEYSTORE_KEY_CONFIG, config.path("key").asText());
    }
    return made;
  }

  private boolean given(String name) {
    return !config.path(name).asText("").isEmpty();
  }

  private String quoted(String name) {
    return '"' + config.path(name).asText().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  /** A consumer of one partition, for one thread at a time. */
  static final class PartitionConsumer {
    private final TopicPartition partition;
    private final KafkaConsumer<byte[], byte[]> consumer;
    /** Messages fetched beyond the end of the previous range. */
    private List<ConsumerRecord<byte[], byte[]>> left = List.of();
    private long position = NOWHERE;

    private PartitionConsumer(KafkaConsumers of, int partition) {
      this.partition = new TopicPartition(of.config.path("topic").asText(), partition);
      this.consumer = new KafkaConsumer<>(of.settings());
      consumer.assign(List.of(this.partition));
    }

    /** The position up to which everything was read. */
    long position() {
      return position;
    }

    /** Returns the next messages before this end; perhaps none. */
    List<ConsumerRecord<byte[], byte[]>> poll(Duration within, long end) {
      List<ConsumerRecord<byte[], byte[]>> found = left.isEmpty() ? consumer.poll(within).records(partition) : left;
      int before = found.size();
      while (before > 0 && found.get(before - 1).offset() >= end) before--;
      left = new ArrayList<>(found.subList(before, found.size()));
      if (!left.isEmpty()) position = end;
      else position = Math.max(before > 0 ? found.get(before - 1).offset() + 1 : position, passed());
      return new ArrayList<>(found.subList(0, before));
    }

    /** The client's position, which also passes transaction markers and compacted messages. */
    private long passed() {
      try {
        return consumer.position(partition, Duration.ZERO);
      } catch (RetriableException unknown) { // the fetched messages can be handed out anyway
        return NOWHERE;
      }
    }

    /** Returns the group's offset. */
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
