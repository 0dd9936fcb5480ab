package dev.baton.spark;

import java.util.List;
import org.apache.spark.SparkContext;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** An empty task in one executor: its first task loads classes, which takes seconds. */
public final class WarmUp {
  private WarmUp() {}

  /** Returns when it ran. The location is as Spark's scheduler reads it, executor_HOST_ID. */
  public static void run(SparkContext context, String location) {
    Seq<String> preferred = CollectionConverters.asScala(List.of(location)).toList();
    Seq<Tuple2<Integer, Seq<String>>> one = CollectionConverters.asScala(List.of(new Tuple2<>(0, preferred))).toList();
    context.makeRDD(one, ClassTag$.MODULE$.apply(Integer.class)).count();
  }
}
