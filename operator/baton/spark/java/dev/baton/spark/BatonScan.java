package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A batch read or a stream of the selected columns of a group's queues. */
final class BatonScan implements SupportsPushDownRequiredColumns, Scan {
  private final Group group;
  private final CaseInsensitiveStringMap options;
  private StructType columns = EntryRow.SCHEMA;

  BatonScan(Group group, CaseInsensitiveStringMap options) {
    this.group = group;
    this.options = options;
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  @Override
  public Scan build() {
    return this;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return "baton[" + group.name + "]";
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    Map<String, String> given = given();
    given.put("checkpointlocation", checkpoint);
    StreamExecution query = RunningQuery.ofThisThread();
    String facts = Group.json(RunningQuery.facts(query)); // on the query's thread; Python is called from another thread
    JsonNode opened = group.ask(decisions -> decisions.open(Group.json(given), facts));
    return new BatonStream(group, opened.path("stream").asText(), columns, query);
  }

  @Override
  public Batch toBatch() {
    return new Batch() {
      @Override
      public InputPartition[] planInputPartitions() {
        return new Plans().ranges(group.ask(decisions -> decisions.batch(Group.json(given()))));
      }

      @Override
      public PartitionReaderFactory createReaderFactory() {
        return new TaskReader.Factory(columns, null);
      }
    };
  }

  private Map<String, String> given() {
    return new TreeMap<>(options); // whose names are lower-case
  }
}
