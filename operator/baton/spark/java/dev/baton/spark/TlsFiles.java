package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import io.netty.handler.ssl.JdkSslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import io.netty.handler.ssl.util.InsecureTrustManagerFactory;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocketFactory;
import redis.clients.jedis.exceptions.JedisAccessControlException;

/** Sets up TLS from PEM files, like Python and Redis, with Netty: certificates to trust, and the client's certificate and key. */
final class TlsFiles {
  private static final Pattern RSA_KEY = Pattern.compile("-----BEGIN RSA PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END");
  /** Version and algorithm of a PKCS #8 structure around a PKCS #1 RSA key. */
  private static final byte[] RSA = {
    0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, (byte) 0x86, 0x48, (byte) 0x86, (byte) 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00
  };

  private TlsFiles() {}

  /** Throws JedisAccessControlException, which is not retried, with the name of an unusable file. */
  static SSLSocketFactory factory(JsonNode tls) {
    String cert = tls.path("cert").asText(), key = tls.path("key").asText(cert);
    try {
      SslContextBuilder made = SslContextBuilder.forClient().sslProvider(SslProvider.JDK);
      String trusted = trusted(tls);
      if (!tls.path("verify").asBoolean(true)) made.trustManager(InsecureTrustManagerFactory.INSTANCE);
      else if (!trusted.isEmpty()) made.trustManager(stream(trusted)); // otherwise Java's default certificates
      if (!cert.isEmpty()) made.keyManager(stream(read(cert)), stream(inPkcs8(read(key))));
      return ((JdkSslContext) made.build()).context().getSocketFactory();
    } catch (IllegalArgumentException form) {
      String files = String.join(" ", tls.path("ca").asText(), cert, key).strip();
      throw unusable(form.getMessage() + " (" + files + "). To convert a key: openssl pkcs8 -topk8 -nocrypt");
    } catch (IOException failed) {
      throw unusable(failed.toString());
    }
  }

  static SSLParameters parameters(JsonNode tls) {
    SSLParameters parameters = new SSLParameters();
    if (tls.path("verifyHost").asBoolean(true)) parameters.setEndpointIdentificationAlgorithm("HTTPS");
    return parameters;
  }

  private static JedisAccessControlException unusable(String why) {
    return new JedisAccessControlException("the URL's TLS files cannot be used: " + why);
  }

  private static String trusted(JsonNode tls) throws IOException {
    StringBuilder found = new StringBuilder(tls.path("caData").asText(""));
    if (tls.path("ca").isTextual()) found.append('\n').append(read(tls.path("ca").asText()));
    if (tls.path("caFolder").isTextual()) {
      try (Stream<Path> files = Files.list(Path.of(tls.path("caFolder").asText()))) {
        for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) found.append('\n').append(Files.readString(file));
      }
    }
    return found.toString();
  }

  private static String read(String file) throws IOException {
    return Files.readString(Path.of(file));
  }

  private static InputStream stream(String text) {
    return new ByteArrayInputStream(text.getBytes(StandardCharsets.US_ASCII));
  }

  /** Converts an RSA key from PKCS #1 to PKCS #8, which Java reads. */
  private static String inPkcs8(String pem) {
    Matcher found = RSA_KEY.matcher(pem);
    if (!found.find()) return pem;
    byte[] key = Base64.getMimeDecoder().decode(found.group(1));
    byte[] whole = sequence((byte) 0x30, concatenated(RSA, sequence((byte) 0x04, key)));
    return "-----BEGIN PRIVATE KEY-----\n" + Base64.getMimeEncoder().encodeToString(whole) + "\n-----END PRIVATE KEY-----\n";
  }

  /** Encodes a DER value, whose length must have as few bytes as possible. */
  private static byte[] sequence(byte tag, byte[] content) {
    byte[] length = BigInteger.valueOf(content.length).toByteArray();
    if (length[0] == 0 && length.length > 1) length = Arrays.copyOfRange(length, 1, length.length);
    byte[] head = content.length < 0x80 ? new byte[] {tag} : new byte[] {tag, (byte) (0x80 + length.length)};
    return concatenated(concatenated(head, length), content);
  }

  private static byte[] concatenated(byte[] first, byte[] second) {
    byte[] both = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, both, first.length, second.length);
    return both;
  }
}
