package dev.baton.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark's pages show of a read, beside its rows. */
public final class ReadCounts {
  static final String ROWS_ON_OWNER = "rowsOnOwner";
  static final String RANGES_LENT = "rangesLent";

  private ReadCounts() {}

  /** A task's value of one of them. */
  record Count(String name, long value) implements CustomTaskMetric {}

  /** Rows that were read in the executor that owns their partition. */
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

  /** Ranges that another executor read than the owner. */
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
