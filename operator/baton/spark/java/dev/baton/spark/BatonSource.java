package dev.baton.spark;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The source <code>format("baton")</code>, which reads the queues of a group. Spark creates one for each load(). */
public final class BatonSource implements TableProvider, DataSourceRegister {
  /** The version of Spark that these classes were compiled against. */
  static final String SPARK = "4.3.";

  @Override
  public String shortName() {
    return "baton";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    check(org.apache.spark.package$.MODULE$.SPARK_VERSION());
    Group.of(options);
    return EntryRow.SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new BatonTable(Group.of(new CaseInsensitiveStringMap(properties)));
  }

  /** Throws IllegalStateException for an unsupported version of Spark. */
  static void check(String version) {
    if (!version.startsWith(SPARK)) {
      throw new IllegalStateException(
          "This version of Baton supports Spark " + SPARK + "x, and this is Spark " + version
              + ": install pyspark " + SPARK + "x, or another version of baton-consumer");
    }
  }

  /** The entries of a group's queues, as a read-only table. */
  private record BatonTable(Group group) implements SupportsRead {
    @Override
    public String name() {
      return "baton:" + group.name;
    }

    @Override
    public Column[] columns() {
      return Arrays.stream(EntryRow.SCHEMA.fields())
          .map(field -> Column.create(field.name(), field.dataType(), field.nullable()))
          .toArray(Column[]::new);
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new BatonScan(group, options);
    }
  }
}
