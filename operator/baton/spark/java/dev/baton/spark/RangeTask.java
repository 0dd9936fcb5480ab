package dev.baton.spark;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/** The ranges that one task reads, one after the other; all of one executor. */
record RangeTask(List<Range> ranges) implements InputPartition {
  @Override
  public String[] preferredLocations() {
    return ranges.get(0).preferredLocations();
  }
}
