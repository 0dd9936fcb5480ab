package dev.baton.spark;

import java.io.IOException;
import java.io.Serializable;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** How a query's sink writes its files, to be tried out in an executor. */
record FileWriting(OutputWriterFactory writers, StructType schema, SerializableConfiguration configuration, String folder)
    implements Serializable {
  private static final Logger LOG = LoggerFactory.getLogger(FileWriting.class);

  /** @param rows the schema of what the sink is given */
  static FileWriting of(FileStreamSink sink, SparkSession session, StructType rows) throws IOException {
    List<String> folders = CollectionConverters.asJava((Seq<String>) field(sink, "partitionColumnNames"));
    Map<String, String> options = (Map<String, String>) field(sink, "options");
    StructField[] written = Stream.of(rows.fields()).filter(one -> !folders.contains(one.name())).toArray(StructField[]::new);
    StructType schema = new StructType(written).asNullable();
    Job job = Job.getInstance(session.sessionState().newHadoopConfWithOptions(options));
    OutputWriterFactory writers = ((FileFormat) field(sink, "fileFormat")).prepareWrite(session, job, options, schema);
    return new FileWriting(writers, schema, new SerializableConfiguration(job.getConfiguration()), (String) field(sink, "path"));
  }

  /** Looks whether the sink's folder is there, and writes a row into a file of this machine, which goes again. */
  void tryOut() {
    try {
      org.apache.hadoop.fs.Path real = new org.apache.hadoop.fs.Path(folder);
      real.getFileSystem(configuration.value()).exists(real);
      Path temporary = Files.createTempDirectory("baton-warm-up");
      try {
        TaskAttemptContext task = new TaskAttemptContextImpl(configuration.value(), new TaskAttemptID());
        OutputWriter writer = writers.newInstance(temporary.resolve("row").toUri().toString(), schema, task);
        writer.write(SampleRow.of(schema));
        writer.close();
      } finally {
        try (Stream<Path> all = Files.walk(temporary)) {
          for (Path one : all.sorted(Comparator.reverseOrder()).toList()) Files.delete(one);
        }
      }
    } catch (IOException | RuntimeException failed) {
      LOG.debug("Writing a file was not tried out", failed); // a batch will tell
    }
  }

  /** What belongs to the sink, which Spark does not show. */
  static Object field(FileStreamSink sink, String name) {
    try {
      Field found = FileStreamSink.class.getDeclaredField(name);
      found.setAccessible(true);
      return found.get(sink);
    } catch (ReflectiveOperationException another) {
      throw new IllegalStateException("This is another Spark than Baton was built for", another);
    }
  }
}
