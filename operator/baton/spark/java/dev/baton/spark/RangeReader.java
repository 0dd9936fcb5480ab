package dev.baton.spark;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of one range, in order, and a report when the task is done with it: at its end, before it, or refused.
 *
 * @param <E> an entry, as the server's client has it
 */
final class RangeReader<E> implements AutoCloseable {
  /** To look at the clock for each row would cost a twentieth of what the row costs. */
  private static final int ROWS_A_LOOK = 16;

  /** What no word of the queue's check is. */
  private static final Set<String> FAILURES = Set.of("AWAY", "ERROR", "GONE");

  private final Range range;
  private final Receipts receipts;
  private final Pages<E> pages;
  private final EntryRow<E> row;
  private List<E> page = List.of();
  private int at;
  private long rows;
  private String refused = "";
  private boolean begun;
  private boolean closed;

  RangeReader(Range range, Receipts receipts, Pages<E> pages, EntryRow<E> row) {
    this.range = range;
    this.receipts = receipts;
    this.pages = pages;
    this.row = row;
  }

  /** By the kind of queue that the range is of. */
  static RangeReader<?> of(Range range, StructType columns, Receipts receipts) {
    Reader reader = Reader.ofThisTask(range);
    return switch (range.planned().value().kind()) {
      case "redis" -> new RangeReader<>(range, receipts, new RedisPages(range, reader), new RedisRow(range, columns));
      case "kafka" -> new RangeReader<>(range, receipts, new KafkaPages(range, reader), new KafkaRow(range, columns));
      default -> throw new IllegalArgumentException("No queue is of the kind " + range.planned().value().kind());
    };
  }

  /** Connects, and asks the queue as the first row does. Nothing is read, whatever it answers. */
  void ask() {
    try (pages) {
      pages.checkAgain();
    } catch (RefusedException nothingThere) {
      // it has answered
    }
  }

  /** Whether there is one more. */
  boolean next() throws RefusedException {
    try {
      while (at < page.size() || turn()) {
        if (at % ROWS_A_LOOK == 0) pages.checkAgain();
        E entry = page.set(at++, null); // as soon as the row is used, its memory is free
        if (row.read(entry)) {
          rows++;
          return true;
        }
      }
      return false;
    } catch (RefusedException why) {
      refused = why.code;
      throw why;
    } catch (TaskKilledException why) {
      throw why; // Spark wants no more of it
    } catch (RuntimeException why) {
      refused = "ERROR";
      throw why;
    }
  }

  private boolean turn() throws RefusedException {
    page = pages.next();
    begun = true;
    at = 0;
    return !page.isEmpty();
  }

  InternalRow get() {
    return row.row();
  }

  /** How many there have been. */
  long rows() {
    return rows;
  }

  /** Whether another executor than the owner's reads. */
  boolean lent() {
    return pages.lent();
  }

  /** Spark closes also what a task leaves early (<code>limit</code>), and what fails; some of it twice. */
  @Override
  public void close() {
    if (closed) return;
    closed = true;
    pages.close();
    if (receipts == null) return;
    if (FAILURES.contains(refused)) report("failed");
    else if (!refused.isEmpty()) report("refused");
    else if (begun) report(pages.lent() ? "lent" : "owner");
  }

  private void report(String how) {
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("queue", range.queue());
    report.put("partition", range.partition());
    report.put("end", range.end());
    report.put("how", how);
    report.put("rows", rows);
    report.put("bytes", row.bytes());
    receipts.add(Group.text(report));
  }
}
