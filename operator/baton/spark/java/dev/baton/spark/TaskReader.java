package dev.baton.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;

/** The rows of a task's ranges, one range after the other. */
final class TaskReader implements PartitionReader<InternalRow> {
  private final List<Range> ranges;
  private final StructType columns;
  private final Receipts receipts;
  private final List<RangeReader> readers = new ArrayList<>();
  private RangeReader reader;

  TaskReader(RangeTask task, StructType columns, Receipts receipts) {
    this.ranges = task.ranges();
    this.columns = columns;
    this.receipts = receipts;
    turn();
  }

  @Override
  public boolean next() throws RefusedException {
    while (!reader.next()) {
      if (readers.size() == ranges.size()) return false;
      reader.close(); // its connection serves the next one
      turn();
    }
    return true;
  }

  private void turn() {
    reader = new RangeReader(ranges.get(readers.size()), columns, receipts);
    readers.add(reader);
  }

  @Override
  public InternalRow get() {
    return reader.get();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    long onOwner = 0;
    long lent = 0;
    for (RangeReader one : readers) {
      if (one.lent()) lent++;
      else onOwner += one.rows();
    }
    return new CustomTaskMetric[] {
      new ReadCounts.Count(ReadCounts.ROWS_ON_OWNER, onOwner), new ReadCounts.Count(ReadCounts.RANGES_LENT, lent)
    };
  }

  @Override
  public void close() {
    reader.close();
  }
}
