package dev.baton.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** <code>format("baton")</code>: the queues of a group. Spark makes one for each load(). */
public final class BatonSource implements TableProvider, DataSourceRegister {
  /** The version whose interfaces these classes were compiled against. */
  static final String SPARK = "4.3.";

  @Override
  public String shortName() {
    return "baton";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    check(org.apache.spark.package$.MODULE$.SPARK_VERSION());
    Group.of(options);
    return Columns.SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new BatonTable(Group.of(new CaseInsensitiveStringMap(properties)));
  }

  /** Throws IllegalStateException for a Spark that has other interfaces. */
  static void check(String version) {
    if (!version.startsWith(SPARK)) {
      throw new IllegalStateException(
          "This version of Baton is for Spark " + SPARK + "x, and this is Spark " + version
              + ": install pyspark " + SPARK + "x, or another version of baton-consumer");
    }
  }
}
