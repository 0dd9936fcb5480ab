package dev.baton.spark;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/**
 * Reads the rows of one range, in order, and reports how the range was read when the task closes it.
 *
 * @param <E> the client library's type of an entry
 */
final class RangeReader<E> implements AutoCloseable {
  /** Rows per look at the clock. A look for each row would cost 5% of the row's time. */
  private static final int ROWS_A_LOOK = 16;

  /** Codes of failures. Other codes are rejections by the queue's check. */
  private static final Set<String> FAILURES = Set.of("AWAY", "ERROR", "GONE");

  private final Range range;
  private final RangeReports reports;
  private final Pages<E> pages;
  private final EntryRow<E> row;
  private List<E> page = List.of();
  private int at;
  private long rows;
  private String refused = "";
  private boolean begun;
  private boolean closed;

  RangeReader(Range range, RangeReports reports, Pages<E> pages, EntryRow<E> row) {
    this.range = range;
    this.reports = reports;
    this.pages = pages;
    this.row = row;
  }

  /** Creates a reader for the range's kind of queue. */
  static RangeReader<?> of(Range range, StructType columns, RangeReports reports) {
    Reader reader = Reader.ofThisTask(range);
    return switch (range.planned().value().kind()) {
      case "redis" -> new RangeReader<>(range, reports, new RedisPages(range, reader), new RedisRow(range, columns));
      case "kafka" -> new RangeReader<>(range, reports, new KafkaPages(range, reader), new KafkaRow(range, columns));
      default -> throw new IllegalArgumentException("Unknown kind of queue: " + range.planned().value().kind());
    };
  }

  /** Connects, and checks the reader at the queue, for a warm-up. Reads nothing, and ignores a rejection. */
  void ask() {
    try (pages) {
      pages.checkAgain();
    } catch (RefusedException expected) {
      // the queue has answered, which is enough
    }
  }

  /** Reads the next row. False after the last. */
  boolean next() throws RefusedException {
    try {
      while (at < page.size() || turn()) {
        if (at % ROWS_A_LOOK == 0) pages.checkAgain();
        E entry = page.set(at++, null); // null, so that its memory can be freed after the row
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
      throw why; // no failure: Spark needs no more rows
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

  /** Spark also closes readers that a task leaves early (<code>limit</code>) or that fail, and some of them twice. */
  @Override
  public void close() {
    if (closed) return;
    closed = true;
    pages.close();
    if (reports == null) return;
    if (FAILURES.contains(refused)) report("failed");
    else if (!refused.isEmpty()) report("refused");
    else if (begun) report(pages.lent() ? "lent" : "owner");
  }

  private void report(String how) {
    String queue = range.queue();
    int partition = range.partition();
    reports.add(
        Group.json(
            Map.of("queue", queue, "partition", partition, "end", range.end(), "how", how, "rows", rows, "bytes", row.bytes())));
  }
}
