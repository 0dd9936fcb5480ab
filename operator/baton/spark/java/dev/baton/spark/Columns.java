package dev.baton.spark;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The columns of an entry. Kafka has keys, values and headers that are null; Redis has none. */
final class Columns {
  static final StructType SCHEMA =
      new StructType()
          .add("queue", DataTypes.StringType, false)
          .add("partition", DataTypes.IntegerType, false)
          .add("offset", DataTypes.LongType, false)
          .add("key", DataTypes.BinaryType, true)
          .add("value", DataTypes.BinaryType, true)
          .add("headers", DataTypes.createMapType(DataTypes.StringType, DataTypes.BinaryType, true), false)
          .add("timestamp", DataTypes.TimestampType, false)
          .add("epoch", DataTypes.LongType, false)
          .add("redelivered", DataTypes.BooleanType, false);

  private Columns() {}
}
