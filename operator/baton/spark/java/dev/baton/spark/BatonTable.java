package dev.baton.spark;

import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The entries of a group's queues, as a table that only can be read. */
final class BatonTable implements SupportsRead {
  private final Group group;

  BatonTable(Group group) {
    this.group = group;
  }

  @Override
  public String name() {
    return "baton:" + group.name;
  }

  @Override
  public Column[] columns() {
    return Arrays.stream(Columns.SCHEMA.fields())
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
