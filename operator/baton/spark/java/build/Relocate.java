import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.commons.ClassRemapper;
import org.apache.xbean.asm9.commons.Remapper;

/**
 * Merges folders and jars into one jar, and renames the packages of libraries, so that they do not conflict with a user's version
 * of Jedis or Kafka. The same input gives the same bytes.
 *
 * <p>Arguments: the jar to write; folders of classes and resources; jars to relocate.
 */
final class Relocate {
  private static final Map<String, String> MOVED =
      Map.of(
          "redis/clients/jedis/", "dev/baton/jedis/",
          "org/apache/commons/pool2/", "dev/baton/pool2/",
          "org/apache/kafka/", "dev/baton/kafka/");
  private static final Set<String> LICENCES = Set.of("META-INF/LICENSE.txt", "META-INF/NOTICE.txt", "LICENSE", "NOTICE");
  private static final String SCHEMAS = "common/message/"; // of Kafka's requests; only its build needs them
  private static final long TIME = 315_532_800_000L; // 1980, the earliest time in a zip file

  private static final Remapper NAMES =
      new Remapper() {
        @Override
        public String map(String name) {
          return moved(name);
        }

        /** Renames class names in strings: Kafka's client loads some of its classes by name. */
        @Override
        public Object mapValue(Object value) {
          String named = "org.apache.kafka.";
          if (!(value instanceof String text) || !text.startsWith(named)) return super.mapValue(value);
          return "dev.baton.kafka." + text.substring(named.length());
        }
      };

  public static void main(String[] arguments) throws IOException {
    Map<String, byte[]> found = new TreeMap<>();
    for (int i = 1; i < arguments.length; i++) {
      Path path = Path.of(arguments[i]);
      if (Files.isDirectory(path)) {
        addFolder(path, name -> name, found);
      } else {
        String licences = "META-INF/licenses/" + path.getFileName().toString().replace(".jar", "") + "/";
        try (FileSystem jar = FileSystems.newFileSystem(path)) {
          addFolder(jar.getPath("/"), name -> inLibrary(name, licences), found);
        }
      }
    }
    try (OutputStream file = Files.newOutputStream(Path.of(arguments[0])); ZipOutputStream jar = new ZipOutputStream(file)) {
      for (Map.Entry<String, byte[]> one : found.entrySet()) {
        ZipEntry entry = new ZipEntry(one.getKey());
        entry.setTime(TIME);
        jar.putNextEntry(entry);
        jar.write(one.getValue());
      }
    }
  }

  /** Adds a folder's files. `names` maps their paths to those in the jar; null leaves a file out. */
  private static void addFolder(Path folder, UnaryOperator<String> names, Map<String, byte[]> found) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) {
        String name = names.apply(folder.relativize(file).toString());
        if (name != null) add(name, Files.readAllBytes(file), found);
      }
    }
  }

  /** Keeps a library's classes, and its licence in a folder with the library's name. */
  private static String inLibrary(String name, String licences) {
    if (LICENCES.contains(name)) return licences + name.replace("META-INF/", "");
    return name.startsWith("META-INF/") || name.startsWith(SCHEMAS) ? null : name;
  }

  private static void add(String name, byte[] bytes, Map<String, byte[]> found) {
    found.put(moved(name), name.endsWith(".class") ? relocated(bytes) : bytes);
  }

  private static byte[] relocated(byte[] bytes) {
    ClassWriter writer = new ClassWriter(0);
    new ClassReader(bytes).accept(new ClassRemapper(writer, NAMES), 0);
    return writer.toByteArray();
  }

  private static String moved(String name) {
    for (Map.Entry<String, String> one : MOVED.entrySet()) {
      if (name.startsWith(one.getKey())) return one.getValue() + name.substring(one.getKey().length());
    }
    return name;
  }
}
