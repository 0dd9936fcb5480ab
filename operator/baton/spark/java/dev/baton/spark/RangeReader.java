package dev.baton.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;

/** The rows of one range, in order, and a report when it is at its end or was refused. */
final class RangeReader implements PartitionReader<InternalRow> {
  private static final int MOST_FOREIGN = 1000;

  private final Range range;
  private final Receipts receipts;
  private final RedisPages pages;
  private final EntryRow row;
  private final List<String> foreign = new ArrayList<>();
  private List<Object> page = List.of();
  private int at;
  private long rows;
  private boolean reported;

  RangeReader(Range range, StructType columns, Receipts receipts) {
    this.range = range;
    this.receipts = receipts;
    this.row = new EntryRow(range, columns);
    this.pages = new RedisPages(range, Reader.ofThisTask(range));
  }

  @Override
  public boolean next() throws IOException {
    while (true) {
      if (at == page.size()) {
        page = nextPage();
        at = 0;
        if (page == null) return false;
      }
      Object entry = page.set(at++, null); // as soon as the row is used, its memory is free
      if (row.read(entry)) {
        rows++;
        return true;
      }
      if (foreign.size() < MOST_FOREIGN) foreign.add(EntryRow.id(entry));
    }
  }

  private List<Object> nextPage() throws IOException {
    List<Object> found = null;
    try {
      found = pages.next();
    } catch (RefusedException refused) {
      report("refused", refused.code);
      throw refused;
    }
    if (found == null) {
      page = List.of();
      report(pages.lent() ? "lent" : "owner", "");
    }
    return found;
  }

  @Override
  public InternalRow get() {
    return row.row();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return new CustomTaskMetric[] {
      new ReadCounts.Count(ReadCounts.ROWS_ON_OWNER, pages.lent() ? 0 : rows),
      new ReadCounts.Count(ReadCounts.RANGES_LENT, pages.lent() ? 1 : 0)
    };
  }

  @Override
  public void close() {
    pages.close();
  }

  private void report(String how, String why) {
    if (reported || receipts == null) return;
    reported = true;
    Map<String, Object> report = new LinkedHashMap<>();
    report.put("queue", range.queue());
    report.put("partition", range.partition());
    report.put("end", range.end());
    report.put("how", how);
    report.put("rows", rows);
    report.put("bytes", row.bytes());
    report.put("foreign", foreign);
    report.put("why", why);
    receipts.add(Group.text(report));
  }
}
