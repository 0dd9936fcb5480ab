package dev.baton.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.common.errors.TimeoutException;

/** The messages of a range, from Kafka's own consumer: what is committed of them, as its pages come. */
final class KafkaPages implements Pages<ConsumerRecord<byte[], byte[]>> {
  private static final Duration ANSWERS_WITHIN = Duration.ofSeconds(5);
  /** For which a task does not hear that it is killed. */
  private static final Duration LOOK = Duration.ofMillis(100);

  private final Range range;
  private final Reader reader;
  private final KafkaCheck check;
  private final KafkaConsumers consumers;
  private final Patience patience;
  private KafkaConsumers.One consumer;
  private boolean atEnd;

  KafkaPages(Range range, Reader reader) {
    this.range = range;
    this.reader = reader;
    this.consumers = new KafkaConsumers(range.planned().value().server());
    this.check = new KafkaCheck(range, consumers.topicId(), reader);
    this.patience = new Patience(reader.task(), consumers);
    this.atEnd = range.start() >= range.end();
  }

  @Override
  public boolean lent() {
    return check.lent();
  }

  @Override
  public List<ConsumerRecord<byte[], byte[]>> next() throws RefusedException {
    List<ConsumerRecord<byte[], byte[]>> page = new ArrayList<>();
    while (page.isEmpty() && !atEnd) page = patience.until(this::poll, () -> {});
    return page;
  }

  @Override
  public void checkAgain() throws RefusedException {
    if (check.old()) patience.until(this::look, () -> {});
  }

  @Override
  public void close() {
    if (consumer != null) consumers.giveBack(consumer, atEnd ? range.end() : KafkaConsumers.NOWHERE);
  }

  /** Perhaps none, where only marks of transactions stand. */
  private List<ConsumerRecord<byte[], byte[]>> poll() throws RefusedException {
    KafkaConsumers.One from = consumer();
    long until = System.nanoTime() + ANSWERS_WITHIN.toNanos();
    long before = from.position();
    try {
      while (System.nanoTime() < until) {
        reader.task().killTaskIfInterrupted();
        List<ConsumerRecord<byte[], byte[]>> found = from.poll(LOOK, range.end());
        atEnd = from.position() >= range.end();
        if (!found.isEmpty() || from.position() != before) return found;
      }
    } catch (InvalidOffsetException gone) {
      throw new RefusedException(
          "GONE", range.named() + " is not there as it was: the topic's retention, or a user, has deleted messages of it");
    }
    throw new TimeoutException("no message of " + range.named() + " came within " + ANSWERS_WITHIN.toSeconds() + " s");
  }

  private Void look() throws RefusedException {
    long now = System.nanoTime();
    check.pass(consumer().committed(ANSWERS_WITHIN), now);
    return null;
  }

  private KafkaConsumers.One consumer() {
    if (consumer == null) consumer = consumers.take(range.partition(), range.start());
    return consumer;
  }
}
