package dev.baton.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import redis.clients.jedis.exceptions.JedisAccessControlException;

/** TLS by PEM files, as Python and Redis have them: certificates to trust, and one of the client's own with its key. */
final class TlsFiles {
  private static final Pattern KEY = Pattern.compile("-----BEGIN ([A-Z ]*)PRIVATE KEY-----([A-Za-z0-9+/=\\s]+)-----END");
  private static final char[] NO_PASSWORD = new char[0];
  /** Of a PKCS #8 structure around an RSA key of PKCS #1: version and algorithm. */
  private static final byte[] RSA = {
    0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, (byte) 0x86, 0x48, (byte) 0x86, (byte) 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00
  };

  private TlsFiles() {}

  /** Throws a JedisException that names the file that cannot be used: to try again does not help. */
  static SSLSocketFactory factory(JsonNode tls) {
    try {
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(own(tls), trusted(tls), null);
      return context.getSocketFactory();
    } catch (IOException | GeneralSecurityException failed) {
      throw new JedisAccessControlException("the files of its URL for TLS cannot be used: " + failed);
    }
  }

  static SSLParameters parameters(JsonNode tls) {
    SSLParameters parameters = new SSLParameters();
    if (tls.path("verifyHost").asBoolean(true)) parameters.setEndpointIdentificationAlgorithm("HTTPS");
    return parameters;
  }

  /** Null: what this Java trusts. */
  private static TrustManager[] trusted(JsonNode tls) throws IOException, GeneralSecurityException {
    if (!tls.path("verify").asBoolean(true)) return new TrustManager[] {new TrustAnything()};
    List<Certificate> found = new ArrayList<>();
    if (tls.path("ca").isTextual()) found.addAll(certificates(tls.path("ca").asText()));
    if (tls.path("caData").isTextual()) found.addAll(parsed(tls.path("caData").asText()));
    if (tls.path("caFolder").isTextual()) {
      try (Stream<Path> files = Files.list(Path.of(tls.path("caFolder").asText()))) {
        for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator) found.addAll(certificates(file.toString()));
      }
    }
    if (found.isEmpty()) return null;
    KeyStore store = empty();
    for (Certificate one : found) store.setCertificateEntry("ca-" + store.size(), one);
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }

  private static KeyManager[] own(JsonNode tls) throws IOException, GeneralSecurityException {
    if (!tls.path("cert").isTextual()) return null;
    String cert = tls.path("cert").asText();
    KeyStore store = empty();
    store.setKeyEntry("own", key(tls.path("key").asText(cert)), NO_PASSWORD, certificates(cert).toArray(new Certificate[0]));
    KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(store, NO_PASSWORD);
    return factory.getKeyManagers();
  }

  private static KeyStore empty() throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
    store.load(null, NO_PASSWORD);
    return store;
  }

  private static Collection<? extends Certificate> certificates(String file) throws IOException, GeneralSecurityException {
    return parsed(Files.readString(Path.of(file)));
  }

  private static Collection<? extends Certificate> parsed(String pem) throws GeneralSecurityException {
    String text = pem.replaceAll("(?s)-----BEGIN [A-Z ]*PRIVATE KEY.*?-----END [A-Z ]*-----", "");
    InputStream bytes = new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    return CertificateFactory.getInstance("X.509").generateCertificates(bytes);
  }

  /** What the URL says by ssl_cert_reqs=none. */
  private static final class TrustAnything implements X509TrustManager {
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }

  private static PrivateKey key(String file) throws IOException, GeneralSecurityException {
    Matcher found = KEY.matcher(Files.readString(Path.of(file)));
    String cure = "write it by openssl pkcs8 -topk8 -nocrypt";
    if (!found.find()) throw new InvalidKeySpecException(file + " has no private key in PEM: " + cure);
    byte[] der = Base64.getMimeDecoder().decode(found.group(2));
    String form = found.group(1).strip();
    if (!form.isEmpty() && !form.equals("RSA")) throw new InvalidKeySpecException(file + " has a key of form " + form + ": " + cure);
    PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(form.isEmpty() ? der : wrapped(der));
    for (String algorithm : new String[] {"RSA", "EC", "EdDSA"}) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(spec);
      } catch (InvalidKeySpecException other) {
        // the next kind
      }
    }
    throw new InvalidKeySpecException(file + " has a key of no known kind: " + cure);
  }

  private static byte[] wrapped(byte[] rsa) {
    return sequence((byte) 0x30, concatenated(RSA, sequence((byte) 0x04, rsa)));
  }

  /** In DER the length has as few bytes as it can. */
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
