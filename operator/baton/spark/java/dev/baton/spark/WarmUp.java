package dev.baton.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.datasources.v2.PartitionReaderFromIterator;
import org.apache.spark.sql.execution.datasources.v2.V2TableWriteExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Runs the steps of a batch in an executor, without rows of the queue. The first batch in an executor loads classes, compiles
 * generated code, starts Python, and connects. That takes seconds, for which the whole batch would wait.
 */
public final class WarmUp {
  private static final Map<String, Batch> LAST = new ConcurrentHashMap<>();
  private static final Logger LOG = LoggerFactory.getLogger(WarmUp.class);
  private static final Set<Class<?>> BUILT_IN_PLANS =
      Set.of(MicroBatchScanExec.class, ProjectExec.class, FilterExec.class, WholeStageCodegenExec.class, InputAdapter.class);
  private static final String BUILT_IN_FUNCTIONS = Expression.class.getPackageName();

  private WarmUp() {}

  /** A batch of a query, with one range of each queue that it reads. */
  private record Batch(StreamExecution query, IncrementalExecution execution, List<Range> ranges) {}

  /** Remembers the stream's last batch with rows. Call it while Spark plans the batch. */
  static void remember(String stream, StreamExecution query, InputPartition[] planned) {
    Map<String, Range> ranges = new HashMap<>();
    for (InputPartition task : planned) ((TaskReader.Task) task).ranges().forEach(range -> ranges.putIfAbsent(range.queue(), range));
    IncrementalExecution execution = query.lastExecution();
    if (execution != null && !ranges.isEmpty()) LAST.put(stream, new Batch(query, execution, List.copyOf(ranges.values())));
  }

  /** Forgets the stream. */
  static void end(String stream) {
    LAST.remove(stream);
  }

  /**
   * Returns an RDD with tasks for one executor, each with one empty string. The location is executor_HOST_ID, as Spark parses it.
   */
  public static JavaRDD<String> tasks(SparkContext context, String location, int count) {
    Seq<String> preferred = CollectionConverters.asScala(List.of(location)).toList();
    Seq<Tuple2<String, Seq<String>>> all =
        CollectionConverters.asScala(Collections.nCopies(count, new Tuple2<>("", preferred))).toList();
    return context.makeRDD(all, ClassTag$.MODULE$.<String>apply(String.class)).toJavaRDD();
  }

  /**
   * Runs tasks of the stream's last batch: the stage that reads, from the source up to its shuffle or sink. They query each queue
   * and read no rows. If the stage has only built-in functions, they run again with a sample row, because the first call of some
   * functions takes long (of upper() more than a second). Returns when the tasks have run; at once if the stream had no batch
   * yet.
   */
  public static void run(String stream, String location, int tasks) throws IOException {
    Batch last = LAST.get(stream);
    if (last == null) return;
    SparkSession session = last.execution.sparkSession();
    session.sparkContext().setJobDescription("Warm up " + location);
    SparkSession.setActiveSession(session); // new plans use the active session of their thread
    try {
      Found found = find(last.execution.executedPlan(), stream, new Tasks(last.ranges, location, tasks, false));
      if (found == null) return;
      Found sampled = find(last.execution.executedPlan(), stream, new Tasks(last.ranges, location, tasks, true));
      FileWriting files =
          last.query.sink() instanceof FileStreamSink sink ? FileWriting.of(sink, session, last.execution.analyzed().schema()) : null;
      SQLExecution$.MODULE$.withSQLConfPropagated(session, () -> {
        found.plan.execute().toJavaRDD().foreachPartition(rows -> {
          rows.forEachRemaining(none -> {});
          if (files != null) files.tryOut();
        });
        if (isBuiltIn(sampled.plan)) sampled.plan.execute().toJavaRDD().foreachPartition(WarmUp::tryOut);
        return null;
      });
    } finally {
      SparkSession.clearActiveSession();
      session.sparkContext().setJobDescription(null);
    }
  }

  /** Runs the stage on the sample row, and ignores exceptions. */
  private static void tryOut(Iterator<InternalRow> rows) {
    try {
      rows.forEachRemaining(none -> {});
    } catch (TaskKilledException cancelled) {
      throw cancelled;
    } catch (Exception refused) {
      LOG.debug("The sample row failed", refused);
    }
  }

  /** Whether the plan calls no user's code. */
  private static boolean isBuiltIn(SparkPlan plan) {
    if (!BUILT_IN_PLANS.contains(plan.getClass())) return false;
    for (Expression one : CollectionConverters.asJava(plan.expressions())) if (!isBuiltIn(one)) return false;
    for (SparkPlan child : CollectionConverters.asJava(plan.children())) if (!isBuiltIn(child)) return false;
    return true;
  }

  private static boolean isBuiltIn(Expression expression) {
    if (expression instanceof UserDefinedExpression || !expression.deterministic()) return false;
    if (!BUILT_IN_FUNCTIONS.equals(expression.getClass().getPackageName())) return false;
    for (Expression child : CollectionConverters.asJava(expression.children())) if (!isBuiltIn(child)) return false;
    return true;
  }

  /** @param whole whether the plan is a complete stage, so that nodes above it are not part of it */
  private record Found(SparkPlan plan, boolean whole) {}

  /**
   * Returns the stage that reads the stream, with these tasks instead of the batch's; null if the plan does not read the stream.
   */
  private static Found find(SparkPlan plan, String stream, Tasks tasks) {
    if (plan instanceof AdaptiveSparkPlanExec adaptive) return find(adaptive.executedPlan(), stream, tasks);
    if (plan instanceof QueryStageExec done) return find(done.plan(), stream, tasks);
    if (plan instanceof MicroBatchScanExec scan) {
      if (!(scan.stream() instanceof BatonStream own && own.name.equals(stream))) return null;
      MicroBatchStream none = new NoRows(own.columns, tasks);
      return new Found(
          new MicroBatchScanExec(
              scan.output(), scan.scan(), none, scan.start(), scan.end(), scan.keyGroupedPartitioning(), scan.ordering()),
          false);
    }
    List<SparkPlan> children = new ArrayList<>(CollectionConverters.asJava(plan.children()));
    for (int i = 0; i < children.size(); i++) {
      Found found = find(children.get(i), stream, tasks);
      if (found == null) continue;
      if (found.whole || ends(plan, children.size())) return new Found(found.plan, true);
      children.set(i, found.plan);
      return new Found((SparkPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq()), false);
    }
    return null;
  }

  /** Whether the warm-up stops below this node, because it shuffles, writes, keeps state, or reads other rows. */
  private static boolean ends(SparkPlan plan, int children) {
    return plan instanceof Exchange || plan instanceof StatefulOperator || plan instanceof V2TableWriteExec
        || (children > 1 && !(plan instanceof BroadcastHashJoinExec));
  }

  /** Tasks for one executor. */
  private record Tasks(List<Range> ranges, String location, int count, boolean sample) {}

  /** A task that queries each queue like a reader of a range. If the queue has keys, the partitions do not exist. */
  record Task(List<Range> ranges, String location, boolean sample) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return new String[] {location};
    }

    PartitionReader<InternalRow> reader(StructType columns) {
      for (Range range : ranges) RangeReader.of(range, columns, null).ask();
      List<InternalRow> rows = sample ? List.of(sampleRow(columns)) : List.of();
      return new PartitionReaderFromIterator<>(CollectionConverters.asScala(rows.iterator()));
    }
  }

  /** A stream whose batches have no rows of a queue, but perhaps a sample row. */
  private record NoRows(StructType columns, Tasks tasks) implements MicroBatchStream {
    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      List<Range> asked = tasks.ranges.stream().map(Range::ofNoPartition).toList();
      return Collections.nCopies(tasks.count, new Task(asked, tasks.location, tasks.sample)).toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new TaskReader.Factory(columns, null);
    }

    @Override
    public Offset latestOffset() {
      throw new UnsupportedOperationException();
    }

    @Override
    public Offset initialOffset() {
      throw new UnsupportedOperationException();
    }

    @Override
    public Offset deserializeOffset(String json) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }

  private static InternalRow sampleRow(StructType columns) {
    return new GenericInternalRow(Stream.of(columns.fields()).map(column -> sampleValue(column.dataType())).toArray());
  }

  private static Object sampleValue(DataType type) {
    if (type instanceof StringType) return UTF8String.fromString("a");
    if (type instanceof BinaryType) return new byte[] {'a'};
    if (type instanceof IntegerType || type instanceof DateType) return 0;
    if (type instanceof LongType || type instanceof TimestampType) return 0L;
    if (type instanceof DoubleType) return 0.0;
    return type instanceof BooleanType ? false : null;
  }

  /** Writes a row like a query's file sink, to warm up an executor. */
  private record FileWriting(OutputWriterFactory writers, StructType schema, SerializableConfiguration configuration, String folder)
      implements Serializable {
    /** @param rows the schema of the sink's rows */
    static FileWriting of(FileStreamSink sink, SparkSession session, StructType rows) throws IOException {
      List<String> folders = CollectionConverters.asJava((Seq<String>) RunningQuery.field(sink, "partitionColumnNames"));
      var options = (scala.collection.immutable.Map<String, String>) RunningQuery.field(sink, "options");
      StructField[] written = Stream.of(rows.fields()).filter(one -> !folders.contains(one.name())).toArray(StructField[]::new);
      StructType schema = new StructType(written).asNullable();
      Job job = Job.getInstance(session.sessionState().newHadoopConfWithOptions(options));
      OutputWriterFactory writers = ((FileFormat) RunningQuery.field(sink, "fileFormat")).prepareWrite(session, job, options, schema);
      String folder = (String) RunningQuery.field(sink, "path");
      return new FileWriting(writers, schema, new SerializableConfiguration(job.getConfiguration()), folder);
    }

    /** Looks up the sink's folder, and writes a row to a temporary file on this machine. */
    void tryOut() {
      try {
        org.apache.hadoop.fs.Path real = new org.apache.hadoop.fs.Path(folder);
        real.getFileSystem(configuration.value()).exists(real);
        Path temporary = Files.createTempDirectory("baton-warm-up");
        try {
          TaskAttemptContext task = new TaskAttemptContextImpl(configuration.value(), new TaskAttemptID());
          OutputWriter writer = writers.newInstance(temporary.resolve("row").toUri().toString(), schema, task);
          writer.write(sampleRow(schema));
          writer.close();
        } finally {
          try (Stream<Path> all = Files.walk(temporary)) {
            for (Path one : all.sorted(Comparator.reverseOrder()).toList()) Files.delete(one);
          }
        }
      } catch (IOException | RuntimeException failed) {
        LOG.debug("Writing a temporary file failed", failed); // if it also fails in a batch, the query reports it
      }
    }
  }
}
