package dev.baton.spark;

import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** A row that no queue has, for warm-ups. */
final class SampleRow {
  private SampleRow() {}

  static InternalRow of(StructType columns) {
    return new GenericInternalRow(Stream.of(columns.fields()).map(column -> value(column.dataType())).toArray());
  }

  /** Null for rarer types. */
  private static Object value(DataType type) {
    if (type instanceof StringType) return UTF8String.fromString("a");
    if (type instanceof BinaryType) return new byte[] {'a'};
    if (type instanceof IntegerType || type instanceof DateType) return 0;
    if (type instanceof LongType || type instanceof TimestampType) return 0L;
    if (type instanceof DoubleType) return 0.0;
    return type instanceof BooleanType ? false : null;
  }
}
