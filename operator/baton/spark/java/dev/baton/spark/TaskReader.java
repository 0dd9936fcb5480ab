package dev.baton.spark;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** Reads the rows of a task's ranges, one range after the other. */
final class TaskReader implements PartitionReader<InternalRow> {
  private final Iterator<Range> ranges;
  private final StructType columns;
  private final RangeReports reports;
  private RangeReader<?> reader;

  TaskReader(Task task, StructType columns, RangeReports reports) {
    this.ranges = task.ranges().iterator();
    this.columns = columns;
    this.reports = reports;
    this.reader = reader();
  }

  @Override
  public boolean next() throws RefusedException {
    while (!reader.next()) {
      if (!ranges.hasNext()) return false;
      reader.close(); // frees its connection for the next range
      reader = reader();
    }
    return true;
  }

  private RangeReader<?> reader() {
    return RangeReader.of(ranges.next(), columns, reports);
  }

  @Override
  public InternalRow get() {
    return reader.get();
  }

  @Override
  public void close() {
    reader.close();
  }

  /** The ranges that one task reads, one after the other. They have the same preferred executor. */
  record Task(List<Range> ranges) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return ranges.get(0).preferredLocations();
    }
  }

  /**
   * Creates the reader of a task's ranges, in the task.
   *
   * @param reports null for no reports
   */
  record Factory(StructType columns, RangeReports reports) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      if (partition instanceof WarmUp.Task warmUp) return warmUp.reader(columns);
      return new TaskReader((Task) partition, columns, reports);
    }
  }
}
