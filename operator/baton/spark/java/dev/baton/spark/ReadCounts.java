package dev.baton.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The source's metrics in Spark's UI. */
public final class ReadCounts {
  static final String ROWS_ON_OWNER = "rowsOnOwner";
  static final String RANGES_LENT = "rangesLent";

  private ReadCounts() {}

  /** A task's value of a metric. */
  record Count(String name, long value) implements CustomTaskMetric {}

  /** Rows read by the executor that owns their partition. */
  public static final class RowsOnOwner extends CustomSumMetric {
    @Override
    public String name() {
      return ROWS_ON_OWNER;
    }

    @Override
    public String description() {
      return "rows read on the owner";
    }
  }

  /** Ranges read by another executor than the owner. */
  public static final class RangesLent extends CustomSumMetric {
    @Override
    public String name() {
      return RANGES_LENT;
    }

    @Override
    public String description() {
      return "ranges lent to another executor";
    }
  }
}
