package dev.baton.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/**
 * Makes the reader of a task's ranges, in the task.
 *
 * @param receipts null: nothing is reported
 */
record RangeReaderFactory(StructType columns, Receipts receipts) implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    if (partition instanceof WarmUp.Task none) return none.reader(columns);
    return new TaskReader((RangeTask) partition, columns, receipts);
  }
}
