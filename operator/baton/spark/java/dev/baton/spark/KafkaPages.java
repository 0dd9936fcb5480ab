package dev.baton.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.common.errors.TimeoutException;

/** The committed messages of a range, from Kafka's consumer. */
final class KafkaPages implements Pages<ConsumerRecord<byte[], byte[]>> {
  private static final Duration ANSWERS_WITHIN = Duration.ofSeconds(5);
  /** Length of a poll, during which a task does not notice that it is killed. */
  private static final Duration POLL = Duration.ofMillis(100);

  private final Range range;
  private final Reader reader;
  private final KafkaCheck check;
  private final KafkaConsumers consumers;
  private final ServerRetries retries;
  private KafkaConsumers.PartitionConsumer consumer;
  private boolean atEnd;

  KafkaPages(Range range, Reader reader) {
    this.range = range;
    this.reader = reader;
    this.consumers = new KafkaConsumers(range.planned().value().server());
    this.check = new KafkaCheck(range, consumers.topicId(), reader);
    this.retries = new ServerRetries(reader.task(), consumers);
    this.atEnd = range.start() >= range.end();
  }

  @Override
  public boolean lent() {
    return check.lent();
  }

  @Override
  public List<ConsumerRecord<byte[], byte[]>> next() throws RefusedException {
    List<ConsumerRecord<byte[], byte[]>> page = new ArrayList<>();
    while (page.isEmpty() && !atEnd) page = retries.retry(this::poll, () -> {});
    return page;
  }

  @Override
  public void checkAgain() throws RefusedException {
    if (check.old()) retries.retry(this::check, () -> {});
  }

  @Override
  public void close() {
    if (consumer != null) consumers.giveBack(consumer, atEnd ? range.end() : KafkaConsumers.NOWHERE);
  }

  /** Returns the next messages, perhaps none if the log has only transaction markers there. */
  private List<ConsumerRecord<byte[], byte[]>> poll() throws RefusedException {
    KafkaConsumers.PartitionConsumer from = consumer();
    long until = System.nanoTime() + ANSWERS_WITHIN.toNanos();
    long before = from.position();
    try {
      while (System.nanoTime() < until) {
        reader.task().killTaskIfInterrupted();
        List<ConsumerRecord<byte[], byte[]>> found = from.poll(POLL, range.end());
        atEnd = from.position() >= range.end();
        if (!found.isEmpty() || from.position() != before) return found;
      }
    } catch (InvalidOffsetException gone) {
      throw new RefusedException(
          "GONE", range.named() + " has lost messages: the topic's retention, or a user, has deleted them");
    }
    throw new TimeoutException(range.named() + ": no message within " + ANSWERS_WITHIN.toSeconds() + " s");
  }

  private Void check() throws RefusedException {
    long now = System.nanoTime();
    check.pass(consumer().committed(ANSWERS_WITHIN), now);
    return null;
  }

  private KafkaConsumers.PartitionConsumer consumer() {
    if (consumer == null) consumer = consumers.take(range.partition(), range.start());
    return consumer;
  }
}
