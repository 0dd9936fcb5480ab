import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/** A client of Spark Connect in the JVM, by the classes that Scala and Java have. Prints its findings line by line. */
final class ConnectClient {
  public static void main(String[] arguments) throws Exception {
    SparkSession spark = SparkSession.builder().config("spark.api.mode", "connect").remote(arguments[0]).getOrCreate();
    Dataset<Row> there = spark.read().format("baton").option("group", "orders").load();
    System.out.println("there " + there.count());
    StreamingQuery query =
        spark.readStream()
            .format("baton")
            .option("group", "orders")
            .load()
            .selectExpr("partition", "offset", "CAST(value AS string) AS value", "redelivered")
            .writeStream()
            .format("json")
            .option("checkpointLocation", arguments[1] + "-checkpoint")
            .trigger(Trigger.AvailableNow())
            .start(arguments[1]);
    query.awaitTermination();
    System.out.println("rows " + query.lastProgress().numInputRows());
    try {
      spark.read().format("baton").option("group", "nobody").load().count();
    } catch (Exception error) {
      System.out.println("error " + error.getMessage());
    }
    spark.stop();
  }
}
